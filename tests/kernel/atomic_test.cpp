// What the atomic backward has to keep to beside what every kernel is tested for: determinism
// refused, every number of channels, long rows, rows that are no numbers.

#include "support/backward_shape.h"
#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/random_problem.h"
#include "support/result_check.h"
#include "support/runner.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace msda::test;

namespace {

TestProblem problem_of(ProblemShape const& shape, std::uint64_t seed) {
  Rng rng(seed);
  return fill_problem(shape, DataKind{}, rng);
}

std::string atomic_kernel(TestHandle const& handle, ProblemShape const& shape) {
  std::vector<std::string> ids = accepting_kernels(handle, shape);
  std::erase_if(ids, [](std::string const& id) { return !id.starts_with("atomic."); });
  REQUIRE(ids.size() == 1);
  return ids.front();
}

void check_against_oracle(TestHandle const& handle, TestProblem const& problem) {
  check_results(handle, problem, atomic_kernel(handle, problem.shape), 3);
}

}  // namespace

TEST_CASE("atomic backward: only for problems that ask for no determinism" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  ProblemShape shape = backward_shape({{{6, 7, 4}}, 1, 20, 2, 32}, MSDA_DTYPE_F16);
  std::string const id = atomic_kernel(handle, shape);
  PlanResult const plan = make_plan(handle, shape, id);
  REQUIRE(plan.message == "");
  CHECK(plan_info(plan.plan.get()).is_deterministic == 0);

  ProblemCopy const view = shape.copy();
  REQUIRE(view.c.determinism == MSDA_DETERMINISTIC);
  msda_plan_options options{};
  options.struct_size = sizeof(options);
  options.mode = MSDA_PLAN_FORCED;
  options.kernel_id = id.c_str();
  msda_plan* refused = nullptr;
  CHECK(msda_plan_create(handle.get(), &view.c, &options, &refused) == MSDA_ERROR_UNSUPPORTED);
  CHECK(std::string(msda_last_error()).find("does not give this determinism") != std::string::npos);
}

TEST_CASE("atomic backward: every number of channels" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int64_t channels = 8; channels <= 256; channels += channels < 72 ? 8 : 48) {
    for (msda_dtype const dtype : {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16}) {
      check_against_oracle(
          handle, problem_of(backward_shape({{{7, 8, 3}, {4, 4, 2}}, 2, 9, 3, channels}, dtype),
                             static_cast<std::uint64_t>(channels)));
    }
  }
}

TEST_CASE("atomic backward: rows of any number of points, shared by slots or not" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int32_t const points : {1, 3, 4, 5, 16, 33, 70}) {
    for (std::int64_t const queries : {1, 40}) {
      for (std::int32_t const reference_dim : {0, 2, 4}) {
        check_against_oracle(
            handle, problem_of(backward_shape({{{6, 5, points}, {3, 3, 1}}, 2, queries, 3, 16},
                                              MSDA_DTYPE_F16, reference_dim),
                               static_cast<std::uint64_t>(points)));
      }
    }
  }
}

TEST_CASE("atomic backward: rows that are no numbers reach their points' pixels alone" *
          needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (msda_dtype const dtype : {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16}) {
    TestProblem problem =
        problem_of(backward_shape({{{30, 31, 2}, {6, 5, 1}}, 1, 60, 2, 32}, dtype), 41);
    spoil_two_rows(problem);
    check_against_oracle(handle, problem);
  }
}
