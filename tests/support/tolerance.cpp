#include "support/tolerance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace msda::test {
namespace {

// The bound of include/msda.h for an element of output, u being half the distance from 1 to the
// next number. The last term is what the formula leaves out: products too small for the
// arithmetic's normal numbers.
double output_bound(double u, double smallest, double K, double products, double slopes) {
  return u * ((4 * K + 8) * products + 4 * slopes) + (4 * K + 8) * smallest;
}

// What MSDA_MATH_FAST may add to it, as include/msda.h has it.
std::vector<double> fast_bound(TestProblem const& problem, std::vector<double> const& products) {
  auto const largest_of = [&](TensorId id) {
    double largest = 0;
    for (double const x : problem.inputs[id]) {
      if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
    }
    return largest;
  };
  bool const scaled = !problem.inputs[TensorId::kValueScale].empty();
  double const scale = scaled ? largest_of(TensorId::kValueScale) : 1.0;
  double const tiny = static_cast<double>(problem.shape.point_total()) * 0x1p-22 * scale *
                      (1 + largest_of(TensorId::kValue));
  std::vector<double> bound = output_slopes(problem, Slope::kOfPixel);
  for (std::size_t i = 0; i < bound.size(); ++i) {
    bound[i] = 0x1p-11 * (12 * products[i] + 8 * bound[i]) + tiny;
  }
  return bound;
}

// A sum of n terms is good to n u of their magnitudes, and the coordinates' rounding moves a
// corner's weight by up to 4 max(W, H) u, which a small weight does not show: so the largest
// magnitude counts too. In float64 1e-12 is far above both for any size tested.
double gradient_bound(ProblemShape const& shape, Arithmetic arithmetic, double magnitude,
                      double largest_magnitude) {
  if (arithmetic == Arithmetic::kFloat64) return 1e-12 * (magnitude + 1e-2 * largest_magnitude);
  std::int32_t side = 1;
  for (LevelShape const& level : shape.levels) side = std::max({side, level.height, level.width});
  auto const terms =
      static_cast<double>(shape.query_count * std::max(shape.point_total(), shape.head_dim) + 64);
  return 0x1p-24 * (terms * magnitude + 16.0 * side * largest_magnitude) + terms * 0x1p-149;
}

double largest_finite(std::vector<double> const& numbers) {
  double largest = 0;
  for (double const number : numbers) {
    if (std::isfinite(number)) largest = std::max(largest, number);
  }
  return largest;
}

}  // namespace

Expectations::Expectations(TestProblem const& problem, Arithmetic arithmetic) {
  ProblemShape const& shape = problem.shape;
  OracleResult const oracle = run_oracle(problem);
  bool const may_cross = shape.backward() && arithmetic != Arithmetic::kFloat64;
  Arrays const kinks = may_cross ? float32_kinks(problem) : Arrays();
  for (TensorRow const& row : tensor_rows()) {
    if (!row.is_result || !row.belongs_to(shape)) continue;
    Expected& expected = by_id_[static_cast<std::size_t>(row.id)];
    expected.dtype = layout_of(shape, row.id).dtype;
    expected.exact = oracle.values[row.id];
    expected.bound = oracle.magnitudes[row.id];
    double const largest = largest_finite(expected.bound);
    if (row.id != TensorId::kOutput) {
      std::vector<double> const& kink = kinks[row.id];
      for (std::size_t i = 0; i < expected.bound.size(); ++i) {
        double& bound = expected.bound[i];
        bound = !kink.empty() && kink[i] != 0 ? std::numeric_limits<double>::infinity()
                                              : gradient_bound(shape, arithmetic, bound, largest);
      }
      continue;
    }
    bool const wide = arithmetic == Arithmetic::kFloat64;
    double const u = wide ? 0x1p-53 : 0x1p-24, smallest = wide ? 0x1p-1074 : 0x1p-149;
    auto const K = static_cast<double>(shape.point_total());
    std::vector<double> const slopes = output_slopes(problem, Slope::kOfMap);
    std::vector<double> more(slopes.size(), 0.0);
    if (arithmetic == Arithmetic::kFloat16Sums) more = fast_bound(problem, expected.bound);
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      expected.bound[i] = output_bound(u, smallest, K, expected.bound[i], slopes[i]) + more[i];
    }
  }
}

Comparison compare(Expected const& expected, std::vector<double> const& actual) {
  Comparison result;
  if (actual.size() != expected.exact.size()) {
    result.failure = fmt::format("{} elements, not {}", actual.size(), expected.exact.size());
    return result;
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    double const exact = expected.exact[i], got = actual[i];
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
        result.squared_error += (got - exact) * (got - exact);
        result.squared_exact += exact * exact;
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
    result.squared_error += error * error;
    result.squared_exact += exact * exact;
  }
  return result;
}

}  // namespace msda::test
