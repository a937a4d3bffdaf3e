// Strides of their own change no bit of the gradients of points: padded, with heads outside rows,
// and as parts of one tensor, which a projection's gradient is.

#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/kernel_cases.h"
#include "support/random_problem.h"
#include "support/runner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace msda::test;

namespace {

const std::vector<const char*> kCases = {"encoder",         "rtdetr",       "empty_level",
                                         "empty_level_box", "unused_level", "odd_channels",
                                         "bordered"};

bool takes(TestHandle const& handle, ProblemShape const& shape, std::string const& id) {
  std::vector<std::string> const ids = accepting_kernels(handle, shape);
  return std::ranges::find(ids, id) != ids.end();
}

// Rows of the gradients lie `gap` elements apart; with `by_head`, those of one head together.
ProblemShape spread(ProblemShape shape, bool by_head, std::int64_t gap) {
  auto const strides = [&](TensorId id) -> Strides3 {
    auto const [B, Q, M, inner] = layout_of(shape, id).dims;
    std::int64_t const step = std::max<std::int64_t>(inner, 1) + gap;
    if (by_head) return {M * Q * step, step, Q * step};
    return {Q * M * step + gap, M * step, step};
  };
  shape.grad_coord_strides = strides(TensorId::kGradCoord);
  shape.grad_weight_strides = strides(TensorId::kGradWeight);
  return shape;
}

int check_spread(TestHandle const& handle) {
  int compared = 0;
  for_kernels_and_cases(handle, kCases, [&](TestProblem const& problem, std::string const& id) {
    if (!problem.shape.backward() || !is_deterministic(id)) return;
    for (bool const by_head : {false, true}) {
      TestProblem other = problem;
      other.shape = spread(problem.shape, by_head, 3);
      if (!takes(handle, other.shape, id)) continue;
      RunResult const expected = run(handle, problem, id);
      RunResult const actual = run(handle, other, id);
      REQUIRE(expected.failure == "");
      REQUIRE(actual.failure == "");
      CHECK(actual.same_bits(expected));
      ++compared;
    }
  });
  return compared;
}

// A row of both gradients [M][2 K] and [M][K], or of each head [2 K] and [K].
struct OneTensor {
  std::vector<float> memory;
  float* weights;  // where those of the first row begin
  msda_tensors tensors;
};

OneTensor place_in_one(TestProblem const& problem, CallBuffers& buffers, bool by_head) {
  ProblemShape const& shape = problem.shape;
  std::int64_t const M = shape.head_count, K = shape.point_total();
  bool const fused = shape.fused();
  OneTensor one{std::vector<float>(static_cast<std::size_t>(shape.batch * shape.query_count) *
                                       static_cast<std::size_t>(3 * M * K),
                                   -7.0f),
                nullptr, buffers.c()};
  one.weights = one.memory.data() + (by_head ? 2 * K : 2 * M * K);
  set_pointer(one.tensors, fused ? TensorId::kGradOffset : TensorId::kGradCoord, one.memory.data());
  set_pointer(one.tensors, fused ? TensorId::kGradLogit : TensorId::kGradWeight, one.weights);
  return one;
}

ProblemShape in_one(ProblemShape shape, bool by_head) {
  std::int64_t const M = shape.head_count, K = shape.point_total(), row = 3 * M * K;
  shape.grad_coord_strides = {shape.query_count * row, row, by_head ? 3 * K : 2 * K};
  shape.grad_weight_strides = {shape.query_count * row, row, by_head ? 3 * K : K};
  return shape;
}

// The element of grad_coord (inner 2 K) or grad_weight (inner K) in the one tensor.
std::size_t place_of(ProblemShape const& shape, bool by_head, bool of_coord, std::size_t i) {
  auto const M = static_cast<std::size_t>(shape.head_count);
  auto const K = static_cast<std::size_t>(shape.point_total());
  std::size_t const inner = of_coord ? 2 * K : K;
  std::size_t const row = i / (inner * M), m = i / inner % M, k = i % inner;
  if (by_head) return row * 3 * M * K + m * 3 * K + (of_coord ? 0 : 2 * K) + k;
  return row * 3 * M * K + (of_coord ? 0 : 2 * M * K) + m * inner + k;
}

void check_in_one(TestHandle const& handle, TestProblem problem, std::string const& id,
                  bool by_head) {
  RunResult const expected = run(handle, problem, id);
  REQUIRE(expected.failure == "");
  TestProblem other = problem;
  other.shape = in_one(problem.shape, by_head);
  PlanResult const plan = make_plan(handle, other.shape, id);
  REQUIRE(plan.message == "");
  CallBuffers buffers(other, plan.plan.get(), 1);
  OneTensor const one = place_in_one(other, buffers, by_head);
  REQUIRE(msda_execute(plan.plan.get(), &one.tensors, nullptr) == MSDA_SUCCESS);
  bool const fused = problem.shape.fused();
  std::size_t compared = 0;
  for (bool const of_coord : {true, false}) {
    TensorId const tensor = of_coord ? (fused ? TensorId::kGradOffset : TensorId::kGradCoord)
                                     : (fused ? TensorId::kGradLogit : TensorId::kGradWeight);
    std::vector<double> const& values = expected.values[tensor];
    for (std::size_t i = 0; i < values.size(); ++i, ++compared) {
      CHECK(one.memory[place_of(problem.shape, by_head, of_coord, i)] == values[i]);
    }
  }
  CHECK(compared == one.memory.size());

  // One element nearer or farther, a part would lie in the next one.
  for (std::ptrdiff_t const shift : {-1, 1}) {
    msda_tensors overlapping = one.tensors;
    set_pointer(overlapping, fused ? TensorId::kGradLogit : TensorId::kGradWeight,
                one.weights + shift);
    CHECK(msda_execute(plan.plan.get(), &overlapping, nullptr) == MSDA_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(msda_last_error()).find("overlap") != std::string::npos);
  }
}

TestProblem small_problem(int reference_dim) {
  ProblemShape shape;
  shape.levels = {{3, 4, 2}, {2, 2, 1}};
  shape.batch = 2;
  shape.query_count = 5;
  shape.head_count = 3;
  shape.head_dim = 8;
  shape.reference_dim = reference_dim;
  shape.operation = MSDA_BACKWARD;
  Rng rng(11);
  return fill_problem(shape, {}, rng);
}

}  // namespace

TEST_CASE("strides of gradients change no bit") { CHECK(check_spread(TestHandle()) > 10); }

TEST_CASE("strides of gradients change no bit, on the GPU" * needs_gpu()) {
  CHECK(check_spread(TestHandle(gpu_options())) > 10);
}

TEST_CASE("the gradients of points may be parts of one tensor") {
  TestHandle const handle;
  for (int const reference_dim : {0, 2, 4}) {
    TestProblem const problem = small_problem(reference_dim);
    for (bool const by_head : {false, true}) {
      std::vector<std::string> const ids =
          accepting_kernels(handle, in_one(problem.shape, by_head));
      CHECK(ids.size() >= 2);
      for (std::string const& id : ids) {
        CAPTURE(id);
        CAPTURE(reference_dim);
        CAPTURE(by_head);
        check_in_one(handle, problem, id, by_head);
      }
    }
  }
}
