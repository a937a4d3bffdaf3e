// The backward computation of `ref` against its own forward one: central differences in float64,
// one-sided ones on the pixel lines, and the adjoint identity. That of `simd` against the same
// differences.

#include "support/random_problem.h"
#include "support/runner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace msda::test;

namespace {

constexpr const char* kRef = "ref.cpu@1";
constexpr std::int64_t kHeadDims[] = {1, 3, 8, 30, 32, 64, 71, 1025};

ProblemShape gradient_shape(std::int64_t head_dim, std::int32_t reference_dim) {
  ProblemShape shape;
  shape.levels = {{4, 5, 2}, {3, 2, 1}};
  shape.batch = 2;
  shape.query_count = 2;
  shape.head_count = 2;
  shape.head_dim = head_dim;
  shape.reference_dim = reference_dim;
  shape.set_dtypes(MSDA_F64);
  shape.operation = MSDA_BACKWARD;
  return shape;
}

TestProblem gradient_problem(std::int64_t head_dim, std::int32_t reference_dim) {
  Rng rng(static_cast<std::uint64_t>(head_dim * 10 + reference_dim));
  return fill_problem(gradient_shape(head_dim, reference_dim), DataKind{}, rng);
}

double dot(std::vector<double> const& a, std::vector<double> const& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Runs forward and keeps its plan, for the many calls of a difference quotient.
class Forward {
 public:
  Forward(TestHandle const& handle, TestProblem problem) : problem_(std::move(problem)) {
    grad_output_ = problem_.inputs[TensorId::kGradOutput];
    problem_.inputs[TensorId::kGradOutput].clear();
    problem_.shape.operation = MSDA_FORWARD;
    plan_ = make_plan(handle, problem_.shape, kRef).plan;
  }
  std::vector<double> output(TensorId id, std::vector<double> const& input) {
    TestProblem changed = problem_;
    changed.inputs[id] = input;
    RunResult result = run_plan(plan_.get(), changed, 0);
    REQUIRE(result.failure == "");
    return result.values[TensorId::kOutput];
  }
  // sum(output * grad_output) with one element of an input moved.
  double loss(TensorId id, std::size_t element, double step) {
    std::vector<double> input = problem_.inputs[id];
    input[element] += step;
    return dot(output(id, input), grad_output_);
  }
  double central(TensorId id, std::size_t element, double step) {
    return (loss(id, element, step) - loss(id, element, -step)) / (2 * step);
  }

 private:
  TestProblem problem_;
  std::vector<double> grad_output_;
  PlanPtr plan_;
};

// Every element where there are few, else a sample spread over all of them.
std::vector<std::size_t> elements_to_check(std::size_t count) {
  std::size_t const stride = std::max<std::size_t>(1, count / 40);
  std::vector<std::size_t> elements;
  for (std::size_t i = 0; i < count; i += stride) elements.push_back(i);
  return elements;
}

TensorId input_of(TensorId gradient) {
  switch (gradient) {
    case TensorId::kGradCoord:
      return TensorId::kCoord;
    case TensorId::kGradWeight:
      return TensorId::kWeight;
    case TensorId::kGradReference:
      return TensorId::kReference;
    case TensorId::kGradOffset:
      return TensorId::kOffset;
    case TensorId::kGradLogit:
      return TensorId::kLogit;
    default:
      return TensorId::kValue;
  }
}

void check_gradient(Forward& forward, TensorId input, std::vector<double> const& gradient,
                    double step, double tolerance) {
  double largest = 0;
  for (double const g : gradient) {
    REQUIRE(std::isfinite(g));
    largest = std::max(largest, std::fabs(g));
  }
  REQUIRE(largest > 0);
  for (std::size_t const element : elements_to_check(gradient.size())) {
    double const difference = forward.central(input, element, step);
    CAPTURE(element);
    CHECK(std::fabs(difference - gradient[element]) <= tolerance * largest);
  }
}

// Moves every coordinate that is nearer than 1e-3 pixels to a line.
void clear_lines(TestProblem& problem) {
  std::vector<double>& coord = problem.inputs[TensorId::kCoord];
  std::size_t i = 0;
  while (i < coord.size()) {
    for (LevelShape const& level : problem.shape.levels) {
      for (std::int32_t p = 0; p < level.points; ++p) {
        for (std::int32_t const size : {level.width, level.height}) {
          double const pixel = coord[i] * size - 0.5;
          if (std::fabs(pixel - std::round(pixel)) < 2e-3) coord[i] += 5e-3 / size;
          ++i;
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("gradients are the central differences of the output") {
  TestHandle const handle(1);
  for (std::int64_t const head_dim : kHeadDims) {
    CAPTURE(head_dim);
    TestProblem problem = gradient_problem(head_dim, 0);
    clear_lines(problem);
    RunResult const gradients = run(handle, problem, kRef);
    REQUIRE(gradients.failure == "");
    Forward forward(handle, problem);
    // Linear in value and weight, and in a coordinate between two pixel lines: any step is exact.
    check_gradient(forward, TensorId::kValue, gradients.values[TensorId::kGradValue], 0.5, 1e-11);
    check_gradient(forward, TensorId::kWeight, gradients.values[TensorId::kGradWeight], 0.5, 1e-11);
    check_gradient(forward, TensorId::kCoord, gradients.values[TensorId::kGradCoord], 1e-4, 1e-9);
  }
}

TEST_CASE("fused gradients are the central differences of the output") {
  TestHandle const handle(1);
  for (std::int32_t const reference_dim : {2, 4}) {
    for (std::int64_t const head_dim : kHeadDims) {
      CAPTURE(reference_dim);
      CAPTURE(head_dim);
      TestProblem const problem = gradient_problem(head_dim, reference_dim);
      RunResult const gradients = run(handle, problem, kRef);
      REQUIRE(gradients.failure == "");
      Forward forward(handle, problem);
      auto const check = [&](TensorId input, TensorId gradient) {
        check_gradient(forward, input, gradients.values[gradient], 1e-6, 2e-8);
      };
      check(TensorId::kReference, TensorId::kGradReference);
      check(TensorId::kOffset, TensorId::kGradOffset);
      check(TensorId::kLogit, TensorId::kGradLogit);
      check_gradient(forward, TensorId::kValue, gradients.values[TensorId::kGradValue], 0.5, 1e-11);
    }
  }
}

TEST_CASE("float32 gradients are the central differences of the output") {
  TestHandle const handle(2);
  for (std::int32_t const reference_dim : {0, 2, 4}) {
    for (std::int64_t const head_dim : kHeadDims) {
      CAPTURE(reference_dim);
      CAPTURE(head_dim);
      // Rounded to float32, then the same numbers in float64.
      TestProblem problem = gradient_problem(head_dim, reference_dim);
      if (reference_dim == 0) clear_lines(problem);
      problem.shape.set_dtypes(MSDA_F32);
      problem.settle();
      RunResult const gradients = run(handle, problem, "simd.cpu.f32@1");
      REQUIRE(gradients.failure == "");
      problem.shape.set_dtypes(MSDA_F64);
      Forward forward(handle, problem);
      for (TensorRow const& row : tensor_rows()) {
        if (!row.is_result() || !row.belongs_to(problem.shape)) continue;
        CAPTURE(row.name);
        TensorId const input = input_of(row.id);
        double const step = row.id == TensorId::kGradValue ? 0.5 : 1e-6;
        check_gradient(forward, input, gradients.values[row.id], step, 1e-5);
      }
    }
  }
}

TEST_CASE("on a pixel line the gradient is the right-hand one") {
  TestHandle const handle(1);
  TestProblem problem = gradient_problem(8, 0);
  // Sizes that are powers of two make x W - 1/2 a whole number exactly.
  problem.shape.levels = {{4, 8, 2}, {2, 4, 1}};
  Rng rng(5);
  problem = fill_problem(problem.shape, DataKind{}, rng);
  std::vector<double>& coord = problem.inputs[TensorId::kCoord];
  std::size_t i = 0;
  while (i < coord.size()) {
    for (LevelShape const& level : problem.shape.levels) {
      for (std::int32_t p = 0; p < level.points; ++p) {
        for (std::int32_t const size : {level.width, level.height}) {
          coord[i++] = (static_cast<double>(rng.integer(-1, size)) + 0.5) / size;
        }
      }
    }
  }
  RunResult const gradients = run(handle, problem, kRef);
  REQUIRE(gradients.failure == "");
  std::vector<double> const& gradient = gradients.values[TensorId::kGradCoord];
  Forward forward(handle, problem);
  int one_sided = 0;
  for (std::size_t element = 0; element < gradient.size(); ++element) {
    double const here = forward.loss(TensorId::kCoord, element, 0);
    double const right = (forward.loss(TensorId::kCoord, element, 1e-4) - here) / 1e-4;
    double const left = (here - forward.loss(TensorId::kCoord, element, -1e-4)) / 1e-4;
    CAPTURE(element);
    CHECK(std::fabs(right - gradient[element]) <= 1e-8);
    one_sided += std::fabs(left - right) > 1e-3 ? 1 : 0;
  }
  CHECK(one_sided > 10);  // else the test says nothing about sides
}

TEST_CASE("adjoint identity for value and weight") {
  TestHandle const handle(2);
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Rng rng(seed);
    ProblemShape shape = random_shape(rng);
    shape.set_dtypes(MSDA_F64);
    shape.value_border = 0;
    // A repeated element collects several gradients: not what the identity is about.
    shape.value_strides = shape.weight_strides = {0, 0, 0};
    shape.operation = MSDA_BACKWARD;
    TestProblem const problem = fill_problem(shape, DataKind{}, rng);
    RunResult const gradients = run(handle, problem, kRef);
    REQUIRE(gradients.failure == "");
    Forward forward(handle, problem);
    auto const check = [&](TensorId input, TensorId gradient) {
      std::vector<double> direction(problem.inputs[input].size());
      for (double& component : direction) component = rng.normal();
      std::vector<double> const moved = forward.output(input, direction);
      std::vector<double> const& g = problem.inputs[TensorId::kGradOutput];
      double size = 0;
      for (std::size_t i = 0; i < moved.size(); ++i) size += std::fabs(moved[i] * g[i]);
      CAPTURE(shape.describe());
      CHECK(std::fabs(dot(moved, g) - dot(direction, gradients.values[gradient])) <= 1e-12 * size);
    };
    check(TensorId::kValue, TensorId::kGradValue);
    if (!shape.fused()) check(TensorId::kWeight, TensorId::kGradWeight);
  }
}
