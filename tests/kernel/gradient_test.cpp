// Gradients of every kernel against the output itself, without the oracle's backward formulas:
// central differences of `ref` in float64, one-sided ones on the pixel lines, and the adjoint
// identity of a forward and a backward kernel. How far rounding may take a gradient from them, the
// bounds of tolerance.h say.

#include "support/element_formats.h"
#include "support/environment.h"
#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/random_problem.h"
#include "support/runner.h"
#include "support/tolerance.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

using namespace msda::test;

namespace {

constexpr std::int64_t kHeadDims[] = {1, 3, 8, 30, 32, 64, 71, 1025};
constexpr msda_dtype kDtypes[] = {MSDA_DTYPE_F64, MSDA_DTYPE_F32, MSDA_DTYPE_F16};

ProblemShape gradient_shape(std::int64_t head_dim, std::int32_t reference_dim, msda_dtype dtype) {
  ProblemShape shape;
  shape.levels = {{4, 5, 2}, {3, 2, 1}};
  shape.batch = 2;
  shape.query_count = 2;
  shape.head_count = 2;
  shape.head_dim = head_dim;
  shape.reference_dim = reference_dim;
  shape.set_dtypes(dtype);
  if (dtype != MSDA_DTYPE_F64) shape.coord_dtype = shape.weight_dtype = MSDA_DTYPE_F32;
  shape.operation = MSDA_BACKWARD;
  return shape;
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

// A difference over a pixel line is that of neither side: fused points that lie so near to one that
// a step crosses it would fail the test.
TestProblem gradient_problem(ProblemShape const& shape) {
  Rng rng(static_cast<std::uint64_t>(shape.head_dim * 10 + shape.reference_dim));
  TestProblem problem = fill_problem(shape, DataKind{}, rng);
  if (!shape.fused()) clear_lines(problem);
  problem.settle();
  return problem;
}

double dot(std::vector<double> const& a, std::vector<double> const& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// The loss sum(output * grad_output) in float64, with elements of an input moved.
class Loss {
 public:
  explicit Loss(TestProblem problem) : handle_(1), problem_(std::move(problem)) {
    grad_output_ = problem_.inputs[TensorId::kGradOutput];
    problem_.inputs[TensorId::kGradOutput].clear();
    problem_.shape.set_dtypes(MSDA_DTYPE_F64);
    problem_.shape.operation = MSDA_FORWARD;
    plan_ = make_plan(handle_, problem_.shape, "ref.cpu@1").plan;
  }
  double operator()(TensorId input, std::size_t element, double step) {
    double& moved = problem_.inputs[input][element];
    double const before = moved;
    moved += step;
    RunResult const result = run_plan(plan_.get(), problem_, 0);
    moved = before;
    REQUIRE(result.failure == "");
    return dot(result.values[TensorId::kOutput], grad_output_);
  }
  double central(TensorId input, std::size_t element, double step) {
    return ((*this)(input, element, step) - (*this)(input, element, -step)) / (2 * step);
  }

 private:
  TestHandle handle_;
  TestProblem problem_;
  std::vector<double> grad_output_;
  PlanPtr plan_;
};

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

std::vector<TensorId> gradients_of(ProblemShape const& shape) {
  std::vector<TensorId> ids;
  for (TensorRow const& row : tensor_rows()) {
    if (row.is_result() && row.belongs_to(shape)) ids.push_back(row.id);
  }
  return ids;
}

// Derivatives of the loss by some elements of an input, each good to `error`.
struct Derivatives {
  std::vector<std::size_t> elements;
  std::vector<double> values;
  double error = 0;

  void set_error(double of_largest) {
    double largest = 0;
    for (double const value : values) largest = std::max(largest, std::fabs(value));
    REQUIRE(largest > 0);
    error = of_largest * largest;
  }
  // A gradient, of which `expected` has type and bounds.
  std::string compared_with(std::vector<double> const& gradient, Expected const& expected) const {
    Expected of_elements{.dtype = expected.dtype, .exact = values, .bound = {}};
    std::vector<double> actual;
    for (std::size_t const element : elements) {
      of_elements.bound.push_back(expected.bound[element] + error);
      actual.push_back(gradient[element]);
    }
    return compare(of_elements, actual).failure;
  }
};

// Moves every element where there are few, else a sample spread over all of them.
Derivatives central_differences(Loss& loss, TestProblem const& problem, TensorId input) {
  bool const fused = problem.shape.fused();
  // The output is linear in values and weights, and in a coordinate between two pixel lines: any
  // step is exact. It is not in logits, and a box's size moves points of all distances.
  bool const linear = input == TensorId::kValue || input == TensorId::kWeight;
  double const step = linear ? 0.5 : fused ? 1e-6 : 1e-4;
  Derivatives result;
  std::size_t const count = problem.inputs[input].size();
  std::size_t const stride = std::max<std::size_t>(1, count / 40);
  for (std::size_t element = 0; element < count; element += stride) {
    result.elements.push_back(element);
    result.values.push_back(loss.central(input, element, step));
  }
  result.set_error(linear ? 1e-11 : fused ? 2e-8 : 1e-9);
  return result;
}

// Every gradient of every kernel that takes the problem, against what `derivatives` says of it.
template <typename Find>
void check_kernels(TestHandle const& handle, TestProblem const& problem, Find derivatives) {
  CAPTURE(problem.shape.describe());
  std::vector<std::string> const ids = accepting_kernels(handle, problem.shape);
  if (ids.empty()) return;  // MSDA_TEST_KERNELS has none that takes it
  ExpectationsByArithmetic expectations(problem);
  std::vector<RunResult> results;
  for (std::string const& id : ids) {
    results.push_back(run(handle, problem, id));
    CAPTURE(id);
    REQUIRE(results.back().failure == "");
  }
  for (TensorId const gradient : gradients_of(problem.shape)) {
    Derivatives const expected = derivatives(gradient);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      CAPTURE(ids[i]);
      CAPTURE(static_cast<int>(gradient));
      Expected const& bounds = expectations[arithmetic_of(ids[i])][gradient];
      CHECK(expected.compared_with(results[i].values[gradient], bounds) == "");
    }
  }
}

void check_central_differences(TestHandle const& handle) {
  NextInShard next_in_shard;
  for (msda_dtype const dtype : kDtypes) {
    for (std::int32_t const reference_dim : {0, 2, 4}) {
      for (std::int64_t const head_dim : kHeadDims) {
        if (!next_in_shard()) continue;
        TestProblem const problem =
            gradient_problem(gradient_shape(head_dim, reference_dim, dtype));
        Loss loss(problem);
        check_kernels(handle, problem, [&](TensorId gradient) {
          return central_differences(loss, problem, input_of(gradient));
        });
      }
    }
  }
}

// All coordinates on pixel lines. Sizes that are powers of two make x W - 1/2 a whole number
// exactly.
TestProblem problem_on_lines(std::int64_t head_dim, msda_dtype dtype) {
  ProblemShape shape = gradient_shape(head_dim, 0, dtype);
  shape.levels = {{4, 8, 2}, {2, 4, 1}};
  Rng rng(5);
  TestProblem problem = fill_problem(shape, DataKind{}, rng);
  std::vector<double>& coord = problem.inputs[TensorId::kCoord];
  std::size_t i = 0;
  while (i < coord.size()) {
    for (LevelShape const& level : shape.levels) {
      for (std::int32_t p = 0; p < level.points; ++p) {
        for (std::int32_t const size : {level.width, level.height}) {
          coord[i++] = (static_cast<double>(rng.integer(-1, size)) + 0.5) / size;
        }
      }
    }
  }
  return problem;
}

struct Sides {
  Derivatives left, right;
};

Sides derivatives_on_lines(TestProblem const& problem) {
  constexpr double kStep = 1e-4;
  Loss loss(problem);
  Sides sides;
  double const here = loss(TensorId::kCoord, 0, 0);
  for (std::size_t i = 0; i < problem.inputs[TensorId::kCoord].size(); ++i) {
    for (Derivatives* const side : {&sides.left, &sides.right}) {
      double const step = side == &sides.left ? -kStep : kStep;
      side->elements.push_back(i);
      side->values.push_back((loss(TensorId::kCoord, i, step) - here) / step);
    }
  }
  for (Derivatives* const side : {&sides.left, &sides.right}) side->set_error(1e-9);
  return sides;
}

void check_pixel_lines(TestHandle const& handle) {
  NextInShard next_in_shard;
  for (msda_dtype const dtype : kDtypes) {
    for (std::int64_t const head_dim : kHeadDims) {
      if (!next_in_shard()) continue;
      TestProblem const problem = problem_on_lines(head_dim, dtype);
      Sides const sides = derivatives_on_lines(problem);
      int one_sided = 0;
      for (std::size_t i = 0; i < sides.left.values.size(); ++i) {
        one_sided += std::fabs(sides.left.values[i] - sides.right.values[i]) > 1e-3 ? 1 : 0;
      }
      CHECK(one_sided > 10);  // else the test says nothing about sides
      CAPTURE(problem.shape.describe());
      ExpectationsByArithmetic expectations(problem);
      for (std::string const& id : accepting_kernels(handle, problem.shape)) {
        CAPTURE(id);
        RunResult const result = run(handle, problem, id);
        REQUIRE(result.failure == "");
        CHECK(sides.right.compared_with(result.values[TensorId::kGradCoord],
                                        expectations[arithmetic_of(id)][TensorId::kGradCoord]) ==
              "");
      }
    }
  }
}

// Values and weights of a random problem: an output is linear in each.
TestProblem linear_problem(std::uint64_t seed, msda_dtype dtype) {
  Rng rng(seed);
  ProblemShape shape = random_shape(rng);
  shape.set_dtypes(dtype);
  if (seed % 2 == 0) {  // what all families of the backward take
    shape.head_dim = std::min<std::int64_t>((shape.head_dim + 7) / 8 * 8, 256);
    if (dtype != MSDA_DTYPE_F64) shape.coord_dtype = shape.weight_dtype = MSDA_DTYPE_F32;
    shape.output_strides = {0, 0, 0};
  }
  shape.math_mode = MSDA_MATH_ACCURATE;
  shape.value_border = 0;
  // A repeated element collects several gradients: not what the identity is about.
  shape.value_strides = shape.weight_strides = {0, 0, 0};
  shape.operation = MSDA_BACKWARD;
  return fill_problem(shape, DataKind{}, rng);
}

// sum(a * b), and how far off it may be where each element of `a` is as far from exact as allowed.
struct Product {
  double value = 0, error = 0;

  Product(Expected const& expected, std::vector<double> const& a, std::vector<double> const& b)
      : value(dot(a, b)) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      double const rounding = half_ulp(expected.dtype, std::fabs(a[i]) + expected.bound[i]);
      error += std::fabs(b[i]) * (expected.bound[i] + rounding + 1e-14 * std::fabs(a[i]));
    }
  }
};

// <grad_output, J v> by the device's own forward, for a direction v.
Product forward_product(TestHandle const& handle, TestProblem const& problem, TensorId input,
                        std::vector<double> const& direction) {
  TestProblem moved = problem;
  moved.inputs[input] = direction;
  moved.inputs[TensorId::kGradOutput].clear();
  moved.shape.operation = MSDA_FORWARD;
  PlanResult const plan = make_plan(handle, moved.shape, "");
  REQUIRE(plan.message == "");
  RunResult const result = run_plan(plan.plan.get(), moved, 0);
  REQUIRE(result.failure == "");
  Expectations const expected(moved, arithmetic_of(plan_info(plan.plan.get()).kernel_id));
  return Product(expected[TensorId::kOutput], result.values[TensorId::kOutput],
                 problem.inputs[TensorId::kGradOutput]);
}

void check_adjoint(TestHandle const& handle) {
  std::uint64_t const problems = handle.on_gpu() && kGpuIsSimulated ? 12 : 30;
  NextInShard next_in_shard;
  for (msda_dtype const dtype : kDtypes) {
    for (std::uint64_t seed = 1; seed <= problems; ++seed) {
      if (!next_in_shard()) continue;
      TestProblem const problem = linear_problem(seed, dtype);
      CAPTURE(problem.shape.describe());
      ExpectationsByArithmetic expectations(problem);
      std::map<TensorId, std::vector<double>> directions;
      std::map<TensorId, Product> forward;
      Rng rng(seed);
      for (TensorId const gradient : {TensorId::kGradValue, TensorId::kGradWeight}) {
        if (gradient == TensorId::kGradWeight && problem.shape.fused()) continue;
        TestProblem direction = problem;
        std::vector<double>& v = direction.inputs[input_of(gradient)];
        for (double& component : v) component = rng.normal();
        direction.settle();
        directions[gradient] = v;
        forward.emplace(gradient, forward_product(handle, problem, input_of(gradient), v));
      }
      for (std::string const& id : accepting_kernels(handle, problem.shape)) {
        CAPTURE(id);
        RunResult const result = run(handle, problem, id);
        REQUIRE(result.failure == "");
        for (auto const& [gradient, v] : directions) {
          CAPTURE(static_cast<int>(gradient));
          Product const back(expectations[arithmetic_of(id)][gradient], result.values[gradient], v);
          Product const& ahead = forward.at(gradient);
          CHECK(std::fabs(ahead.value - back.value) <= ahead.error + back.error);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("gradients are the central differences of the output") {
  check_central_differences(TestHandle(2));
}
TEST_CASE("gradients are the central differences of the output, on the GPU" * needs_gpu()) {
  check_central_differences(TestHandle(gpu_options()));
}

TEST_CASE("on a pixel line the gradient is the right-hand one") {
  check_pixel_lines(TestHandle(2));
}
TEST_CASE("on a pixel line the gradient is the right-hand one, on the GPU" * needs_gpu()) {
  check_pixel_lines(TestHandle(gpu_options()));
}

TEST_CASE("adjoint identity for value and weight") { check_adjoint(TestHandle(2)); }
TEST_CASE("adjoint identity for value and weight, on the GPU" * needs_gpu()) {
  check_adjoint(TestHandle(gpu_options()));
}
