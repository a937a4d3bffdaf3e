#define DOCTEST_CONFIG_IMPLEMENT
#include "support/environment.h"
#include "support/gpu_tests.h"
#include "support/json_summary.h"
#include "support/random_problem.h"
#include "support/unchecked_cases.h"

#include <fmt/core.h>

#if MSDA_TEST_SIMULATED
#include "runtime/thread_schedule.h"
#endif

int main(int argc, char** argv) {
  using namespace msda::test;
  if (std::string const wrong = check_environment(); !wrong.empty()) {
    fmt::print(stderr, "{}\n", wrong);
    return 1;
  }
  doctest::Context context(argc, argv);
  int const result = context.run();
  if (!write_json_summary()) return 1;
  if (context.shouldExit()) return result;  // a query such as --help or --list-test-cases
  fmt::print("[random ] first seed {} (MSDA_TEST_SEED; MSDA_TEST_PROBLEMS: how many)\n",
             random_range(0).first);
  if (std::int32_t const limit = sm_limit_of_tests().value_or(0); limit != 0) {
    fmt::print(
        "[gpu    ] plans keep to {} multiprocessors where their kernels do (MSDA_TEST_SM_LIMIT)\n",
        limit);
  }
  if (Shard const shard = shard_of_tests(); shard.count > 1) {
    fmt::print("[shard  ] {} of {} (MSDA_TEST_SHARD)\n", shard.number, shard.count);
  }
  if (std::string const begin = kernels_of_tests(); !begin.empty()) {
    fmt::print("[kernels] those that begin with {}, all others after a minus (MSDA_TEST_KERNELS)\n",
               begin);
  }
  report_gpu_tests();
#if MSDA_TEST_SIMULATED
  fmt::print("[simt   ] schedule {} (MSDA_SIMT_SCHEDULE)\n",
             simt::text_of(simt::chosen_schedule()));
  if (result != 0) fmt::print("[simt   ] to repeat it: {}\n", simt::repeat_command());
#endif
  return report_unchecked_cases() ? result : 1;
}
