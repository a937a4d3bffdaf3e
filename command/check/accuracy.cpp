#include "command/check/accuracy.h"

#include "command/files/parallel.h"
#include "core/join.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace msda::command {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// "output[0,7,3,5]"
std::string element_text(std::string_view name, Shape const& shape, std::int64_t index,
                         Shape const& origin = {}) {
  Shape at = origin.empty() ? Shape(shape.size(), 0) : origin;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    at[axis] += index % shape[axis];
    index /= shape[axis];
  }
  return fmt::format("{}[{}]", name, join(at, ","));
}

// A NaN without its sign: what was never written has one.
double unsigned_nan(double x) { return std::isnan(x) ? std::fabs(x) : x; }

// The share of the bound that `excess`, the error beyond half an ulp, takes; more than 1 is wrong.
double bound_share(double result, double exact, msda_dtype type, double excess, double bound) {
  if (excess <= bound) return excess <= 0 ? 0 : excess / bound;
  bool const is_same =
      result == round_to_type(type, exact) || (std::isnan(result) && std::isnan(exact));
  if (is_same) return 0;
  return std::isfinite(excess) && bound > 0 ? excess / bound : kInfinity;
}

// The elements [start, start + length) of both.
Accuracy compare_elements(Array const& result, Expected const& expected, double factor,
                          std::size_t start, std::size_t length) {
  Accuracy accuracy;
  std::span<const double> const exact = float64_elements(expected.exact);
  std::span<const double> const bounds = float64_elements(expected.bound);
  HalfUlp const half_ulp_at(expected.type);
  std::size_t const element_bytes = type_bytes(result.type);
  auto const results = decode_elements(
      result.type, std::span(result.bytes).subspan(start * element_bytes, length * element_bytes));
  for (std::size_t j = 0; j < length; ++j) {
    std::size_t const i = start + j;
    double const bound = factor * bounds[bounds.size() == 1 ? 0 : i];
    double const error = std::fabs(results[j] - exact[i]);
    if (std::isfinite(error)) accuracy.max_error = std::max(accuracy.max_error, error);
    double const excess = error - half_ulp_at(exact[i]);
    if (excess <= std::min(accuracy.max_bound_share, 1.0) * bound) continue;  // no larger share
    double const share = bound_share(results[j], exact[i], expected.type, excess, bound);
    accuracy.max_bound_share = std::max(accuracy.max_bound_share, share);
    if (share <= 1) continue;
    if (!std::isfinite(error)) accuracy.max_error = kInfinity;
    if (accuracy.wrong_count++ > 0) continue;
    accuracy.first_wrong = fmt::format("{} is {}, exact {}: off by {:.3g}, allowed {:.3g}",
                                       element_text(expected.name, expected.exact.shape,
                                                    static_cast<std::int64_t>(i), expected.origin),
                                       unsigned_nan(results[j]), unsigned_nan(exact[i]),
                                       unsigned_nan(error), bound + half_ulp_at(exact[i]));
  }
  accuracy.value_count = static_cast<std::int64_t>(length);
  return accuracy;
}

}  // namespace

void Accuracy::merge(Accuracy const& other) {
  value_count += other.value_count;
  wrong_count += other.wrong_count;
  max_error = std::max(max_error, other.max_error);
  max_bound_share = std::max(max_bound_share, other.max_bound_share);
  if (first_wrong.empty()) first_wrong = other.first_wrong;
}

Accuracy compare(Array const& result, Expected const& expected, double factor) {
  std::span<const double> const exact = float64_elements(expected.exact);
  // In chunks: the whole result in float64 would be much larger than the result.
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  std::vector<Accuracy> chunks((exact.size() + kChunk - 1) / kChunk);
  for_chunks(exact.size(), kChunk, [&](std::size_t chunk, std::size_t start, std::size_t length) {
    chunks[chunk] = compare_elements(result, expected, factor, start, length);
  });
  Accuracy accuracy;
  for (Accuracy const& chunk : chunks) accuracy.merge(chunk);
  return accuracy;
}

Accuracy check_finite(std::string_view name, Array const& array) {
  Accuracy accuracy;
  std::span<const double> const elements = float64_elements(array);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (std::isfinite(elements[i]) || accuracy.wrong_count++ > 0) continue;
    accuracy.first_wrong = fmt::format(
        "{} is {}, which finite inputs cannot give",
        element_text(name, array.shape, static_cast<std::int64_t>(i)), unsigned_nan(elements[i]));
    accuracy.max_bound_share = kInfinity;
  }
  accuracy.value_count = array.element_count();
  return accuracy;
}

}  // namespace msda::command
