// What the generic backward of `direct` has to keep to beside what every kernel is tested for:
// chunks and tiles that are just full, many tiles, all points in one cell, rows that are no
// numbers, runs of heads under a workspace limit, and few multiprocessors.

#include "support/backward_shape.h"
#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/random_problem.h"
#include "support/result_check.h"
#include "support/runner.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace msda::test;

namespace {

// Coordinates from `low` to `high`.
TestProblem problem_between(double low, double high, ProblemShape const& shape) {
  DataKind kind;
  kind.low = low;
  kind.high = high;
  Rng rng(static_cast<std::uint64_t>(shape.query_count));
  return fill_problem(shape, kind, rng);
}

std::string generic_kernel(TestHandle const& handle, ProblemShape const& shape) {
  for (std::string const& id : accepting_kernels(handle, shape)) {
    if (id.starts_with("direct.")) return id;
  }
  FAIL("no kernel of direct takes ", shape.describe());
  return "";
}

PlanPtr plan_of(TestHandle const& handle, ProblemShape const& shape, std::size_t limit_bytes,
                std::int32_t sm_count_limit = 0) {
  ProblemCopy const view = shape.copy();
  std::string const id = generic_kernel(handle, shape);
  msda_plan_options options{};
  options.struct_size = sizeof(options);
  options.mode = MSDA_PLAN_FORCED;
  options.kernel_id = id.c_str();
  options.workspace_limit_bytes = limit_bytes;
  options.sm_count_limit = sm_count_limit;
  msda_plan* plan = nullptr;
  static_cast<void>(msda_plan_create(handle.get(), &view.c, &options, &plan));
  return PlanPtr(plan);
}

void check_against_oracle(TestHandle const& handle, TestProblem const& problem) {
  check_results(handle, problem, generic_kernel(handle, problem.shape), 3);
}

}  // namespace

TEST_CASE("direct backward: chunks that are just full, lists of one tile" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int64_t const queries : {255, 256, 257, 511, 512, 513}) {
    check_against_oracle(
        handle, problem_between(0.001, 0.999,
                                backward_shape({{{5, 9, 4}}, 1, queries, 1, 3}, MSDA_DTYPE_F32)));
    check_against_oracle(
        handle,
        problem_between(0.1, 0.9, backward_shape({{{1, 1, 4}}, 1, queries, 1, 3}, MSDA_DTYPE_F32)));
  }
}

TEST_CASE("direct backward: many tiles, tiles of one cell, thin levels, unused levels" *
          needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (msda_dtype const dtype :
       {MSDA_DTYPE_F64, MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16, MSDA_DTYPE_F8_E4M3}) {
    for (std::int32_t const border : {0, 1}) {
      ProblemShape shape = backward_shape(
          {{{70, 90, 4}, {1, 200, 3}, {33, 2, 2}, {4, 4, 0}, {1, 2, 4}}, 2, 130, 3, 5}, dtype);
      shape.value_border = border;
      check_against_oracle(handle, problem_between(-0.1, 1.1, shape));
    }
  }
}

TEST_CASE("direct backward: every kind of reference, heads of many channels" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int32_t const reference_dim : {0, 2, 4}) {
    for (std::int64_t const channels : {1, 3, 8, 30, 64, 71, 1025}) {
      ProblemShape const shape = backward_shape({{{6, 5, 3}, {3, 2, 2}}, 2, 7, 2, channels},
                                                MSDA_DTYPE_F64, reference_dim);
      check_against_oracle(handle, problem_between(-0.1, 1.1, shape));
    }
  }
}

TEST_CASE("direct backward: all points in one cell" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  ProblemShape const shape = backward_shape({{{6, 7, 4}}, 1, 3000, 1, 5}, MSDA_DTYPE_F32);
  check_against_oracle(handle, problem_between(0.45, 0.49, shape));
}

TEST_CASE("direct backward: rows that are no numbers reach their points' pixels alone" *
          needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (msda_dtype const dtype : {MSDA_DTYPE_F64, MSDA_DTYPE_F32, MSDA_DTYPE_F16}) {
    TestProblem problem =
        problem_between(-0.1, 1.1, backward_shape({{{30, 31, 2}, {6, 5, 1}}, 1, 60, 2, 30}, dtype));
    std::vector<double>& grad = problem.inputs[TensorId::kGradOutput];
    for (std::size_t d = 0; d < 60; ++d) {
      grad[7 * 60 + d] = std::numeric_limits<double>::quiet_NaN();
      grad[20 * 60 + d] = std::numeric_limits<double>::infinity();
    }
    problem.settle();
    check_against_oracle(handle, problem);
  }
}

TEST_CASE("direct backward: the same bits under limits of workspace and multiprocessors" *
          needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int32_t const reference_dim : {0, 2}) {
    ProblemShape const shape =
        backward_shape({{{16, 17, 4}, {5, 6, 3}}, 3, 40, 5, 6}, MSDA_DTYPE_F16, reference_dim);
    TestProblem const problem = problem_between(-0.1, 1.1, shape);
    PlanPtr const whole = plan_of(handle, shape, 0);
    REQUIRE(whole != nullptr);
    msda_plan_info const info = plan_info(whole.get());
    RunResult const expected = run_plan(whole.get(), problem, 1);
    REQUIRE(expected.failure == "");
    // The sums in float32 of all heads, then the points of one head at least.
    std::size_t const sums = 3 * (16 * 17 + 5 * 6) * 5 * 6 * 4;
    for (std::size_t const limit :
         {sums + 6000, (sums + info.workspace_bytes) / 2, info.workspace_bytes - 1}) {
      CAPTURE(limit);
      PlanPtr const plan = plan_of(handle, shape, limit);
      REQUIRE(plan != nullptr);
      CHECK(plan_info(plan.get()).workspace_bytes <= limit);
      CHECK(plan_info(plan.get()).launch_count > info.launch_count);
      CHECK(run_plan(plan.get(), problem, 2).same_bits(expected));
    }
    CHECK(plan_of(handle, shape, sums) == nullptr);
    for (std::int32_t const limit : {1, 2, 3}) {
      PlanPtr const plan = plan_of(handle, shape, 0, limit);
      REQUIRE(plan != nullptr);
      CHECK(run_plan(plan.get(), problem, 3).same_bits(expected));
    }
  }
}
