#include "support/tolerance.h"

#include "support/gradient_bounds.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace msda::test {
namespace {

bool has_non_numbers(TestProblem const& problem) {
  for (TensorId const id : {TensorId::kValue, TensorId::kWeight, TensorId::kLogit,
                            TensorId::kValueScale, TensorId::kGradOutput}) {
    std::vector<double> const& numbers = problem.inputs[id];
    if (!std::all_of(numbers.begin(), numbers.end(), [](double x) { return std::isfinite(x); })) {
      return true;
    }
  }
  return false;
}

// Elements may be what they are with points moved by what the arithmetic rounds them by.
void allow_both_sides(Expected& expected, TensorId id, std::vector<OracleResult> const& sides) {
  std::vector<double>& exact = expected.exact;
  for (double const x : exact) expected.kinds.push_back(kind_of(x));
  for (OracleResult const& side : sides) {
    for (std::size_t i = 0; i < exact.size(); ++i) {
      double const other = side.values[id][i];
      expected.kinds[i] |= kind_of(other);
      if (!std::isfinite(exact[i]) && std::isfinite(other)) exact[i] = other;
    }
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  int const both = kind_of(kInfinity) | kind_of(-kInfinity);
  for (unsigned char& kinds : expected.kinds) {
    // Between two signs a sample is 0, which an infinite weight makes NaN.
    if ((kinds & both) == both) kinds |= kind_of(std::nan(""));
  }
}

// The oracle computes in float64 itself, so that the errors of two computations meet there.
Precision precision_of(Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kFloat64) return {2 * 0x1p-53, 0x1p-1074, false};
  return {0x1p-24, 0x1p-149, true};
}

// Half of the 2^-11 that kernels with float16 sums round shares of pixels to.
double share_error_of(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kFloat16Sums ? 0x1p-12 : 0.0;
}

void add_error(double exact, double got, Comparison& result) {
  double const error = std::fabs(got - exact);
  result.max_error = std::max(result.max_error, error);
  result.squared_error += error * error;
  result.squared_exact += exact * exact;
}

}  // namespace

unsigned char kind_of(double x) { return std::isnan(x) ? 1 : std::isfinite(x) ? 8 : x > 0 ? 2 : 4; }

Expectations::Expectations(TestProblem const& problem, Arithmetic arithmetic) {
  ProblemShape const& shape = problem.shape;
  OracleResult const oracle = run_oracle(problem);
  bool const may_cross = precision_of(arithmetic).may_cross_lines && has_non_numbers(problem);
  std::vector<OracleResult> const sides =
      may_cross ? run_oracle_beside(problem, share_error_of(arithmetic))
                : std::vector<OracleResult>();
  for (TensorRow const& row : tensor_rows()) {
    if (!row.is_result() || !row.belongs_to(shape)) continue;
    Expected& expected = by_id_[static_cast<std::size_t>(row.id)];
    expected.dtype = layout_of(shape, row.id).dtype;
    expected.exact = oracle.values[row.id];
    if (!sides.empty()) allow_both_sides(expected, row.id, sides);
  }
  if (shape.backward()) {
    GradientBounds const gradients = gradient_bounds(problem, precision_of(arithmetic));
    for (std::size_t i = 0; i < kTensorCount; ++i) {
      by_id_[i].bound = gradients.bound.by_id[i];
      by_id_[i].below = gradients.below.by_id[i];
      by_id_[i].above = gradients.above.by_id[i];
    }
    return;
  }
  Expected& output = by_id_[static_cast<std::size_t>(TensorId::kOutput)];
  output.bound = oracle.output_magnitudes;
  std::vector<double> const& scale = problem.inputs[TensorId::kValueScale];
  command::ForwardBound const bound(arithmetic, shape,
                                    command::largest_magnitude(problem.inputs[TensorId::kValue]),
                                    scale.empty() ? 1.0 : command::largest_magnitude(scale));
  // What the formula leaves out: products too small for the arithmetic's normal numbers.
  double const underflow =
      (4 * static_cast<double>(shape.point_total()) + 8) * precision_of(arithmetic).smallest;
  std::vector<double> const slopes = output_slopes(problem, Slope::kOfMap);
  std::vector<double> steps(slopes.size());
  if (bound.step_factor != 0) steps = output_slopes(problem, Slope::kOfPixel);
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    output.bound[i] = bound(output.bound[i], slopes[i], steps[i]) + underflow +
                      2 * precision_of(arithmetic).u * oracle.output_distances[i];
  }
}

Comparison compare(Expected const& expected, std::vector<double> const& actual) {
  Comparison result;
  if (actual.size() != expected.exact.size()) {
    result.failure = fmt::format("{} elements, not {}", actual.size(), expected.exact.size());
    return result;
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    double const got = actual[i];
    double exact = expected.exact[i];
    bool const may_be_none = !expected.kinds.empty() && !std::isfinite(got);
    if (may_be_none && (expected.kinds[i] & kind_of(got)) != 0) continue;
    bool const numbers = std::isfinite(exact) && !std::isnan(got);
    if (numbers && !expected.below.empty()) {  // of the derivatives of all sides, the nearest
      exact = std::clamp(got, exact - expected.below[i], exact + expected.above[i]);
    }
    auto const off = [&](double allowed) {
      if (!result.failure.empty()) return;
      result.failure =
          fmt::format("element {} is {:.17g}, exact {:.17g}: off by {:.3g}, allowed {:.3g}", i, got,
                      exact, std::fabs(got - exact), allowed);
    };
    if (std::isnan(exact) || std::isnan(got)) {
      if (std::isnan(exact) != std::isnan(got)) off(0);
      continue;
    }
    if (round_to(expected.dtype, exact) == got) {  // infinities, and overflow of the type, as well
      if (std::isfinite(exact) && std::isfinite(got)) {
        add_error(exact, got, result);
      }
      continue;
    }
    double const bound = expected.bound[i];
    if (std::isinf(got) || std::isinf(exact)) {
      // Near the largest number of the type, a small error decides between it and infinity.
      bool const may_overflow = std::isfinite(exact) &&
                                round_to(expected.dtype, exact + std::copysign(bound, got)) == got;
      if (!may_overflow) off(bound);
      continue;
    }
    double const allowed =
        bound + half_ulp(expected.dtype, std::max(std::fabs(exact), std::fabs(got)));
    double const error = std::fabs(got - exact);
    if (!(error <= allowed)) off(allowed);
    result.worst_share = std::max(result.worst_share, error / allowed);
    add_error(exact, got, result);
  }
  return result;
}

}  // namespace msda::test
