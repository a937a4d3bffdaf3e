#include "support/repeated_runs.h"

#include "support/gpu_tests.h"

#include <doctest/doctest.h>

#if MSDA_TEST_SIMULATED
#include "runtime/thread_schedule.h"
#endif

namespace msda::test {
namespace {

RunResult run_again(msda_plan const* plan, TestProblem const& problem, int i) {
#if MSDA_TEST_SIMULATED
  simt::ScopedSchedule const schedule(
      {.order = i % 2 == 1 ? simt::Order::random : simt::Order::warps,
       .seed = static_cast<std::uint64_t>(i)});
#endif
  return run_plan(plan, problem, static_cast<std::uint64_t>(i), true);
}

}  // namespace

int differing_runs(msda_plan const* plan, TestProblem const& problem, int runs) {
  RunResult const expected = run_plan(plan, problem, 0, true);
  REQUIRE(expected.failure == "");
  int differing = 0;
  for (int i = 1; i <= runs; ++i) {
    differing += run_again(plan, problem, i).same_bits(expected) ? 0 : 1;
  }
  return differing;
}

}  // namespace msda::test
