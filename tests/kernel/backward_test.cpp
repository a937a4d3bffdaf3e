// Backward where the corpus does not go: rows of grad_output that are no numbers, many points on
// one pixel, rows of thousands of points, levels of many windows.

#include "support/case_file.h"
#include "support/expected_reason.h"
#include "support/random_problem.h"
#include "support/runner.h"
#include "support/tolerance.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

using namespace msda::test;

namespace {

void check_kernels(TestHandle const& handle, TestProblem const& problem) {
  CAPTURE(problem.shape.describe());
  ExpectationsByArithmetic expectations(problem);
  for (std::string const& id : accepting_kernels(handle, problem.shape)) {
    CAPTURE(id);
    RunResult const result = run(handle, problem, id, 3);
    REQUIRE(result.failure == "");
    for (TensorRow const& row : tensor_rows()) {
      if (!row.is_result() || !row.belongs_to(problem.shape)) continue;
      CAPTURE(row.name);
      CHECK(compare(expectations[arithmetic_of(id)][row.id], result.values[row.id]).failure == "");
    }
  }
}

ProblemShape backward_shape(std::vector<LevelShape> levels, msda_dtype dtype) {
  ProblemShape shape;
  shape.levels = std::move(levels);
  shape.head_count = 2;
  shape.head_dim = 8;
  shape.set_dtypes(dtype);
  shape.operation = MSDA_BACKWARD;
  return shape;
}

// Some rows of grad_output hold a number that is none, one or in every channel.
void spoil_rows(TestProblem& problem, Rng& rng) {
  std::vector<double>& grad = problem.inputs[TensorId::kGradOutput];
  auto const D = static_cast<std::size_t>(problem.shape.head_dim);
  for (std::size_t row = 0; row + D <= grad.size(); row += D) {
    if (!rng.chance(0.1)) continue;
    double const odd =
        rng.pick({std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                  -std::numeric_limits<double>::infinity()});
    bool const all = rng.chance(0.3);
    auto const one = static_cast<std::size_t>(rng.integer(0, problem.shape.head_dim - 1));
    for (std::size_t d = 0; d < D; ++d) {
      if (all || d == one) grad[row + d] = odd;
    }
  }
}

}  // namespace

TEST_CASE("rows of grad_output that are no numbers reach what the formula says") {
  TestHandle const handle(3);
  for (const char* const name : {"inside", "far_outside", "odd_coords", "bordered", "padded_rows",
                                 "odd_channels", "decoder", "unused_level"}) {
    CAPTURE(name);
    for (ProblemShape shape : corpus_case(name).shapes()) {
      shape.operation = MSDA_BACKWARD;
      TestProblem problem = corpus_case(name).make(shape);
      Rng rng(11);
      spoil_rows(problem, rng);
      check_kernels(handle, problem);
    }
  }
}

TEST_CASE("1e5 points on one pixel, gradients up to 6e4") {
  TestHandle const handle(2);
  for (msda_dtype const dtype : {MSDA_F32, MSDA_F16, MSDA_BF16}) {
    ProblemShape shape = backward_shape({{5, 4, 4}}, dtype);
    shape.query_count = 25000;
    shape.head_count = 1;
    shape.grad_value_dtype = MSDA_F32;  // the sums exceed float16
    Rng rng(static_cast<std::uint64_t>(dtype));
    TestProblem problem = fill_problem(shape, DataKind{}, rng);
    std::vector<double>& coord = problem.inputs[TensorId::kCoord];
    for (std::size_t i = 0; i < coord.size(); i += 2) {  // right and below the middle of (2, 1)
      coord[i] = (2.5 + rng.uniform(0.01, 0.4)) / 4;
      coord[i + 1] = (1.5 + rng.uniform(0.01, 0.4)) / 5;
    }
    for (double& g : problem.inputs[TensorId::kGradOutput]) g = rng.uniform(0, 6e4);
    for (double& w : problem.inputs[TensorId::kWeight]) w = rng.uniform(0, 1);
    problem.settle();
    check_kernels(handle, problem);
  }
}

TEST_CASE("backward of rows that are longer than what is sorted at a time") {
  TestHandle const handle(2);
  for (std::int32_t const reference_dim : {0, 2, 4}) {
    ProblemShape shape = backward_shape({{9, 7, 3000}, {4, 4, 1}, {6, 5, 2100}}, MSDA_F32);
    shape.query_count = 3;
    shape.reference_dim = reference_dim;
    Rng rng(static_cast<std::uint64_t>(reference_dim));
    check_kernels(handle, fill_problem(shape, DataKind{}, rng));
  }
}

TEST_CASE("backward of levels of many windows") {
  TestHandle const handle(3);
  for (msda_dtype const dtype : {MSDA_F32, MSDA_F16, MSDA_BF16, MSDA_F8_E4M3}) {
    for (std::int32_t const border : {0, 1}) {
      // Bands that end in a row of pixels, in one half outside, and one row before.
      ProblemShape shape =
          backward_shape({{70, 90, 4}, {63, 31, 2}, {64, 32, 2}, {33, 65, 3}}, dtype);
      shape.query_count = 300;
      shape.head_dim = dtype == MSDA_F16 ? 32 : 5;
      shape.value_border = border;
      Rng rng(static_cast<std::uint64_t>(dtype));
      check_kernels(handle, fill_problem(shape, DataKind{}, rng));
    }
  }
}

TEST_CASE("simd backward needs at most 24 bytes a point, 8 a value and a window a thread") {
  constexpr std::int32_t kThreads = 3;
  constexpr std::int64_t kPerThread = 400 << 10, kRounding = 8 << 10;
  TestHandle const handle(kThreads);
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    ProblemShape shape = random_problem_shape(seed, MSDA_BACKWARD);
    shape.query_hw.clear();
    if (seed % 3 == 0) shape.query_count *= 200;
    if (seed % 5 == 0) shape.head_dim += 2000;
    std::int64_t const points =
        shape.batch * shape.query_count * shape.head_count * shape.point_total();
    std::int64_t const values =
        shape.batch * shape.token_count() * shape.head_count * shape.head_dim;
    shape.value_strides = shape.output_strides = {0, 0, 0};
    for (std::string const& id : accepting_kernels(handle, shape)) {
      if (!id.starts_with("simd.")) continue;
      CAPTURE(shape.describe());
      auto const needed = static_cast<std::int64_t>(
          plan_info(make_plan(handle, shape, id).plan.get()).workspace_bytes);
      CHECK(needed <= 24 * points + 8 * values + kThreads * kPerThread + kRounding);
    }
  }
}

TEST_CASE("the same bits backward with 1 2 3 and 7 threads on 20 shapes") {
  TestHandle const one(1);
  TestHandle const others[] = {TestHandle(2), TestHandle(3), TestHandle(7)};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    ProblemShape shape = backward_shape({{static_cast<std::int32_t>(rng.integer(1, 80)),
                                          static_cast<std::int32_t>(rng.integer(1, 80)), 4},
                                         {static_cast<std::int32_t>(rng.integer(1, 40)),
                                          static_cast<std::int32_t>(rng.integer(1, 40)), 3}},
                                        rng.pick({MSDA_F32, MSDA_F16, MSDA_BF16, MSDA_F8_E4M3}));
    shape.batch = rng.integer(1, 3);
    shape.head_count = rng.integer(1, 5);
    shape.head_dim = rng.integer(1, 40);
    shape.query_count = rng.integer(1, 3000);
    shape.reference_dim = static_cast<std::int32_t>(rng.pick({0, 2, 4}));
    TestProblem const problem = fill_problem(shape, DataKind{}, rng);
    for (std::string const& id : accepting_kernels(one, shape)) {
      if (id.starts_with("ref.")) continue;  // the next test has it, on smaller problems
      CAPTURE(shape.describe());
      CAPTURE(id);
      RunResult const expected = run(one, problem, id);
      REQUIRE(expected.failure == "");
      for (TestHandle const& handle : others) {
        RunResult const result = run(handle, problem, id);
        REQUIRE(result.failure == "");
        CHECK(result.same_bits(expected));
      }
    }
  }
}
