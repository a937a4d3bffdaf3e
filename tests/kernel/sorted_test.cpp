// What the sorted backward has to keep to beside what every kernel is tested for: ends of chunks
// and rounds, many tiles, rows that are no numbers, and runs of heads under a workspace limit.

#include "support/backward_shape.h"
#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/random_problem.h"
#include "support/repeated_runs.h"
#include "support/result_check.h"
#include "support/runner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace msda::test;

namespace {

TestProblem problem_of(ProblemShape const& shape, std::uint64_t seed) {
  Rng rng(seed);
  return fill_problem(shape, DataKind{}, rng);
}

ProblemShape with_offsets(Shape const& shape, msda_dtype values, std::int32_t reference_dim,
                          msda_dtype offsets) {
  ProblemShape result = backward_shape(shape, values, reference_dim);
  result.coord_dtype = offsets;
  return result;
}

// All points on the map, so that each is a record.
TestProblem full_problem(ProblemShape const& shape, std::uint64_t seed) {
  DataKind kind;
  kind.low = 0.001;
  kind.high = 0.999;
  Rng rng(seed);
  return fill_problem(shape, kind, rng);
}

std::vector<std::string> sorted_kernels(TestHandle const& handle, ProblemShape const& shape) {
  std::vector<std::string> ids = accepting_kernels(handle, shape);
  std::erase_if(ids, [](std::string const& id) { return !id.starts_with("sorted."); });
  REQUIRE(ids.size() == 1);
  return ids;
}

void check_against_oracle(TestHandle const& handle, TestProblem const& problem) {
  check_results(handle, problem, sorted_kernels(handle, problem.shape).front(), 3);
}

PlanResult plan_within(TestHandle const& handle, ProblemShape const& shape, std::string const& id,
                       std::size_t workspace_limit_bytes) {
  return make_plan(handle, shape, id, 0, workspace_limit_bytes);
}

// Besides at other addresses, from some of which vectors cannot be loaded: with the same bits.
void check_at_addresses(TestHandle const& handle, TestProblem const& problem) {
  check_against_oracle(handle, problem);
  ProblemShape const& shape = problem.shape;
  PlanResult const plan = plan_within(handle, shape, sorted_kernels(handle, shape).front(), 0);
  CHECK(differing_runs(plan.plan.get(), problem, 2) == 0);
}

// The least limit, to 1 %, that the kernel makes a plan for.
std::size_t least_workspace(TestHandle const& handle, ProblemShape const& shape,
                            std::string const& id, std::size_t enough) {
  std::size_t too_little = 0;
  while (enough - too_little > enough / 100 + 256) {
    std::size_t const middle = too_little + (enough - too_little) / 2;
    bool const fits = plan_within(handle, shape, id, middle).status == MSDA_SUCCESS;
    (fits ? enough : too_little) = middle;
  }
  return enough;
}

}  // namespace

TEST_CASE("sorted backward: chunks, rounds and lists that are just full" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int64_t const queries : {1023, 1024, 1025, 2050}) {
    check_against_oracle(
        handle, full_problem(backward_shape({{{5, 9, 4}}, 1, queries, 1, 8}, MSDA_DTYPE_F32), 21));
  }
  // One tile, of as many records as a round has, and one less and more.
  for (std::int64_t const queries : {1023, 1024, 1025, 2048}) {
    check_against_oracle(
        handle, full_problem(backward_shape({{{1, 1, 1}}, 1, queries, 1, 16}, MSDA_DTYPE_F32), 22));
  }
}

TEST_CASE("sorted backward: every number of channels" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int64_t channels = 8; channels <= 256; channels += channels < 72 ? 8 : 48) {
    for (msda_dtype const dtype : {MSDA_DTYPE_F32, MSDA_DTYPE_BF16}) {
      check_against_oracle(
          handle, problem_of(backward_shape({{{7, 8, 3}, {4, 4, 2}}, 2, 9, 3, channels}, dtype),
                             static_cast<std::uint64_t>(channels)));
    }
  }
}

// Heads of 32 channels of 16 bits: a warp takes 8, 16 or 32 points of a row at a time, of an odd
// number of heads by the two sides of points.
TEST_CASE("sorted backward: any number of heads and points, queries in tiles" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  auto const check = [&](ProblemShape const& shape) {
    check_at_addresses(handle, problem_of(shape, 71));
  };
  for (std::int64_t const heads : {1, 2, 3, 8}) {
    for (std::int32_t const points : {1, 8, 13, 29}) {
      ProblemShape shape =
          backward_shape({{{5, 6, points}, {1, 9, 1}, {7, 1, 2}}, 2, 19, heads, 32},
                         points == 8 ? MSDA_DTYPE_BF16 : MSDA_DTYPE_F16);
      if (points != 1) shape.query_hw = {3, 5, 2, 2};
      check(shape);
    }
  }
  for (std::int64_t const heads : {1, 2}) {
    // Points of a row in several batches; fewer queries than a block of such rows takes.
    check(backward_shape({{{6, 5, 49}}, 1, 9, heads, 32}, MSDA_DTYPE_F16));
    check(backward_shape({{{6, 5, 16}}, 3, 7, heads, 32}, MSDA_DTYPE_F16));
  }
  // Blocks that take several rounds of rows.
  for (std::int64_t const heads : {3, 6}) {
    ProblemShape shape = backward_shape({{{9, 8, 2}}, 2, 1230 / heads, heads, 32}, MSDA_DTYPE_F16);
    shape.query_hw = {5, static_cast<std::int32_t>(246 / heads)};
    check(shape);
  }
}

// Fused input. A row of 16-bit heads of 32 channels is one group of points to three in registers,
// or more groups in shared memory, of other heads up to 16 there, and beyond that it is staged in
// the workspace; where K divides 32, rows do not end within the warps that bin them.
TEST_CASE("sorted backward: fused rows of any number of points" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int32_t const dim : {2, 4}) {
    for (std::int64_t const heads : {1, 2, 3}) {
      for (std::int32_t const points : {1, 6, 13, 29, 47}) {
        Shape const shape = {{{5, 6, points}, {0, 9, 1}, {7, 1, 2}}, 2, 11, heads, 32};
        check_at_addresses(handle, problem_of(backward_shape(shape, MSDA_DTYPE_F16, dim), 72));
      }
    }
    for (std::int32_t const points : {4, 8, 16, 33}) {
      Shape const shape = {{{5, 6, points}}, 1, 70, 1, points == 16 ? 40 : 8};
      check_at_addresses(handle, problem_of(backward_shape(shape, MSDA_DTYPE_F32, dim), 73));
    }
  }
}

// As autocast gives them: beside float32 references. Rows lie within the warps that bin them where
// K divides 32; points of F16 rows share a warp.
TEST_CASE("sorted backward: fused rows with offsets of 16 bits" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int32_t const dim : {2, 4}) {
    for (msda_dtype const offsets : {MSDA_DTYPE_F16, MSDA_DTYPE_BF16}) {
      for (msda_dtype const values : {MSDA_DTYPE_F16, MSDA_DTYPE_F32}) {
        for (std::int32_t const points : {4, 13, 16, 32, 40}) {
          std::int64_t const heads = points == 16 ? 1 : 2;
          Shape const shape = {{{5, 6, points - 2}, {0, 9, 1}, {7, 1, 1}}, 2, 11, heads, 32};
          check_at_addresses(handle, problem_of(with_offsets(shape, values, dim, offsets), 75));
        }
      }
    }
  }
}

TEST_CASE("sorted backward: fused rows that are no numbers" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (msda_dtype const offsets : {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16}) {
    for (std::int32_t const dim : {2, 4}) {
      for (std::int32_t const points : {4, 5, 16}) {
        Shape const shape = {{{5, 6, points}, {4, 3, points}}, 1, 24, 2, 32};
        TestProblem problem = problem_of(with_offsets(shape, MSDA_DTYPE_F16, dim, offsets), 74);
        double i = 0;
        for (TensorId const id : {TensorId::kLogit, TensorId::kOffset, TensorId::kReference}) {
          std::vector<double>& numbers = problem.inputs[id];
          for (std::size_t at = 7; at < numbers.size(); at += 41) {
            i += 1;
            numbers[at] = i < 3 ? NAN : std::fmod(i, 2) == 0 ? kInfinity : -kInfinity;
          }
        }
        problem.settle();
        if (offsets == MSDA_DTYPE_F32) {
          check_at_addresses(handle, problem);
        } else {  // whose NaN may have other signs in other kernels
          check_against_oracle(handle, problem);
        }
      }
    }
  }
}

// Powers of the row's largest logit alone are finite. A row of 32 is a warp's.
TEST_CASE("sorted backward: fused rows of logits far below zero" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int32_t const points : {8, 16}) {
    Shape const shape = {{{5, 6, points}, {4, 3, points}}, 1, 24, 2, 32};
    TestProblem problem = problem_of(backward_shape(shape, MSDA_DTYPE_F16, 2), 76);
    for (double& logit : problem.inputs[TensorId::kLogit]) logit = 200 * logit - 2000;
    problem.settle();
    check_at_addresses(handle, problem);
  }
}

TEST_CASE("sorted backward: tiles of few records and of one more" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int64_t const queries : {1, 8, 31, 32, 33, 65}) {
    for (std::int64_t const channels : {8, 16, 24, 72}) {
      check_against_oracle(
          handle, full_problem(backward_shape({{{5, 6, 1}, {7, 7, 1}}, 2, queries, 1, channels},
                                              MSDA_DTYPE_F16),
                               static_cast<std::uint64_t>(queries)));
    }
  }
}

// Levels of a tile and of a few tiles, of which a warp or a block sums each. All points on one
// pixel of a level fill one of its tiles: of 96 and 97 records a warp and a block take it.
TEST_CASE("sorted backward: tiles of a warp and of a block side by side" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int64_t const queries : {1, 32, 33, 95, 96, 97, 200}) {
    for (std::int64_t const channels : {8, 16, 32, 40}) {
      auto const seed = static_cast<std::uint64_t>(queries + channels);
      ProblemShape const shape = backward_shape(
          {{{23, 30, 1}, {3, 4, 2}, {17, 9, 1}}, 1, queries, 3, channels}, MSDA_DTYPE_F16);
      check_against_oracle(handle, full_problem(shape, seed));
      TestProblem crowded = full_problem(shape, seed);
      std::vector<double>& coord = crowded.inputs[TensorId::kCoord];
      for (std::size_t i = 0; i < coord.size(); ++i) coord[i] = i % 2 == 0 ? 0.3 : 0.6;
      crowded.settle();
      check_against_oracle(handle, crowded);
    }
  }
}

TEST_CASE("sorted backward: values of any type in tiles of a warp" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (msda_dtype const dtype : {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16}) {
    for (bool const is_mixed : {false, true}) {
      ProblemShape shape = backward_shape({{{40, 33, 2}, {2, 2, 1}}, 2, 70, 1, 72}, dtype);
      if (is_mixed) shape.output_dtype = dtype == MSDA_DTYPE_F32 ? MSDA_DTYPE_BF16 : MSDA_DTYPE_F32;
      check_against_oracle(handle, full_problem(shape, 51));
    }
  }
}

TEST_CASE("sorted backward: more tiles than a block tells apart" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  // Chunks of one point a thread, whose records go straight to their places, and of two.
  for (std::int64_t const queries : {700, 600 * handle.sm_count()}) {
    check_against_oracle(
        handle,
        problem_of(backward_shape({{{300, 301, 3}, {2, 3, 1}}, 1, queries, 1, 8}, MSDA_DTYPE_F16),
                   31));
  }
}

TEST_CASE("sorted backward: a small plan takes nothing from a large one" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  ProblemShape const large = backward_shape({{{200, 200, 1}}, 1, 50, 1, 8}, MSDA_DTYPE_F16);
  ProblemShape const small = backward_shape({{{2, 3, 1}}, 1, 5, 1, 8}, MSDA_DTYPE_F16);
  std::string const id = sorted_kernels(handle, large).front();
  PlanResult const first = plan_within(handle, large, id, 0);
  PlanResult const second = plan_within(handle, small, id, 0);
  REQUIRE(first.status == MSDA_SUCCESS);
  REQUIRE(second.status == MSDA_SUCCESS);
  CHECK(run_plan(second.plan.get(), problem_of(small, 61), 1).failure == "");
  CHECK(run_plan(first.plan.get(), problem_of(large, 62), 1).failure == "");
}

TEST_CASE("sorted backward: a row that is no number reaches its points' pixels alone" *
          needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (msda_dtype const dtype : {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16}) {
    ProblemShape const shape = backward_shape({{{30, 31, 2}, {6, 5, 1}}, 1, 60, 2, 32}, dtype);
    TestProblem problem = problem_of(shape, 41);
    spoil_two_rows(problem);
    check_against_oracle(handle, problem);
    std::string const id = sorted_kernels(handle, shape).front();
    RunResult const result = run(handle, problem, id);
    std::vector<double> const& value = result.values[TensorId::kGradValue];
    auto const odd =
        std::count_if(value.begin(), value.end(), [](double x) { return !std::isfinite(x); });
    // Each row and head has 3 points with 4 corners of 32 channels, at most.
    CHECK(odd > 0);
    CHECK(odd <= 2 * 2 * 3 * 4 * 32);
  }
}

TEST_CASE("sorted backward: the same bits under a workspace limit" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int32_t const reference_dim : {0, 2, 4}) {
    ProblemShape const shape =
        backward_shape({{{16, 17, 4}, {5, 6, 3}}, 3, 40, 5, 24}, MSDA_DTYPE_F16, reference_dim);
    TestProblem const problem = problem_of(shape, 51);
    std::string const id = sorted_kernels(handle, shape).front();
    PlanResult const whole = plan_within(handle, shape, id, 0);
    REQUIRE(whole.status == MSDA_SUCCESS);
    msda_plan_info const info = plan_info(whole.plan.get());
    RunResult const expected = run_plan(whole.plan.get(), problem, 1);
    REQUIRE(expected.failure == "");
    std::size_t const least = least_workspace(handle, shape, id, info.workspace_bytes);
    CHECK(least < info.workspace_bytes / 4);
    for (std::size_t const limit : {least, info.workspace_bytes / 2, info.workspace_bytes - 1}) {
      PlanResult const plan = plan_within(handle, shape, id, limit);
      REQUIRE(plan.status == MSDA_SUCCESS);
      msda_plan_info const limited = plan_info(plan.plan.get());
      CHECK(limited.workspace_bytes <= limit);
      CHECK(limited.launch_count > info.launch_count);
      CHECK(run_plan(plan.plan.get(), problem, 2).same_bits(expected));
    }
    CHECK(plan_within(handle, shape, id, least / 2).status == MSDA_ERROR_UNSUPPORTED);
  }
}
