#define DOCTEST_CONFIG_IMPLEMENT
#include "support/gpu_tests.h"
#include "support/random_problem.h"
#include "support/unchecked_cases.h"

#include <fmt/format.h>

int main(int argc, char** argv) {
  using namespace msda::test;
  doctest::Context context(argc, argv);
  int const result = context.run();
  if (context.shouldExit()) return result;  // a query such as --help or --list-test-cases
  fmt::print("[random ] first seed {} (MSDA_TEST_SEED; MSDA_TEST_PROBLEMS: how many)\n",
             random_range(0).first);
  bool const all_checked = report_unchecked_cases();
  return report_gpu_tests() && all_checked ? result : 1;
}
