#include "lab/forward_bound.h"

#include "core/dtype.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace msda::lab {
namespace {

// Per [B][L][M][D]: the largest difference of neighbouring pixels. Outside counts as zero, as it
// does for a sample that straddles the map's edge.
std::vector<double> largest_differences(Case const& part) {
  ProblemShape const& spec = part.spec;
  std::span<const double> const value = float64_elements(*part.find("value"));
  std::int64_t const row = spec.head_count * spec.head_dim;
  std::vector<double> largest(static_cast<std::size_t>(spec.batch * spec.level_count() * row));
  if (largest.empty()) return largest;
  std::vector<double> const zeros(static_cast<std::size_t>(row));
  std::int64_t const border = spec.value_border;
  std::vector<std::int64_t> const starts = spec.level_starts();
  for (std::int64_t i = 0; i < spec.batch * spec.level_count(); ++i) {
    auto const l = static_cast<std::size_t>(i % spec.level_count());
    LevelShape const& level = spec.levels[l];
    std::int64_t const token = i / spec.level_count() * spec.token_count() + starts[l];
    std::int64_t const height = level.height;
    std::int64_t const width = level.width;
    std::int64_t const row_tokens = width + 2 * border;
    double* const out = &largest[static_cast<std::size_t>(i * row)];
    auto const pixel = [&](std::int64_t y, std::int64_t x) {
      if (y < 0 || x < 0 || y >= height || x >= width) return zeros.data();
      return &value[static_cast<std::size_t>((token + (y + border) * row_tokens + x + border) *
                                             row)];
    };
    for (std::int64_t y = -1; y < height; ++y) {
      for (std::int64_t x = -1; x < width; ++x) {
        double const* const here = pixel(y, x);
        double const* const right = pixel(y, x + 1);
        double const* const below = pixel(y + 1, x);
        for (std::int64_t c = 0; c < row; ++c) {
          double const difference =
              std::max(std::fabs(here[c] - right[c]), std::fabs(here[c] - below[c]));
          // NaN and infinity have no distance; std::max keeps the finite one.
          if (std::isfinite(difference)) out[c] = std::max(out[c], difference);
        }
      }
    }
  }
  return largest;
}

// Per [B][Q][M][L]: sum of |w| over the level's points, after the softmax of fused input.
std::vector<double> weight_sums(Case const& part) {
  ProblemShape const& spec = part.spec;
  std::span<const double> const weight =
      float64_elements(*part.find(spec.fused() ? "logit" : "weight"));
  auto const points = static_cast<std::size_t>(spec.point_total());
  auto const levels = static_cast<std::size_t>(spec.level_count());
  auto const rows = static_cast<std::size_t>(spec.batch * spec.query_count * spec.head_count);
  std::vector<double> sums(rows * levels);
  for (std::size_t row = 0; points > 0 && row < rows; ++row) {
    double const* const in = &weight[row * points];
    double const largest = *std::max_element(in, in + points);
    double total = spec.fused() ? 0 : 1;
    for (std::size_t k = 0; k < points && spec.fused(); ++k) total += std::exp(in[k] - largest);
    std::size_t k = 0;
    for (std::size_t l = 0; l < levels; ++l) {
      for (std::int32_t p = 0; p < spec.levels[l].points; ++p, ++k) {
        double const w = spec.fused() ? std::exp(in[k] - largest) / total : std::fabs(in[k]);
        if (std::isfinite(w)) sums[row * levels + l] += w;
      }
    }
  }
  return sums;
}

}  // namespace

double largest_magnitude(std::span<double const> numbers) {
  double largest = 0;
  for (double const x : numbers) {
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  }
  return largest;
}

ForwardBound::ForwardBound(Arithmetic arithmetic, ProblemShape const& shape, double largest_value,
                           double largest_scale) {
  auto const K = static_cast<double>(shape.point_total());
  double const u = arithmetic == Arithmetic::kFloat64 ? 0x1p-53 : 0x1p-24;
  double const v = arithmetic == Arithmetic::kFloat16Sums ? 0x1p-11 : 0;
  product_factor = u * (4 * K + 8) + 12 * v;
  slope_factor = 4 * u;
  step_factor = 8 * v;
  // What MSDA_MATH_FAST may add for products too small for float16.
  constant = v == 0 ? 0 : K * 0x1p-22 * largest_scale * (1 + largest_value);
}

ForwardBound forward_bound(Case const& input) {
  ProblemShape const& spec = input.spec;
  bool const in_halves = spec.math_mode == MSDA_MATH_FAST &&
                         (spec.value_dtype == MSDA_DTYPE_F16 || is_scaled(spec.value_dtype));
  if (!in_halves) {
    return {spec.value_dtype == MSDA_DTYPE_F64 ? Arithmetic::kFloat64 : Arithmetic::kFloat32, spec,
            0, 0};
  }
  Array const* const scale = input.find("value_scale");
  return {Arithmetic::kFloat16Sums, spec, largest_magnitude(input.find("value")->decode()),
          scale == nullptr ? 1.0 : largest_magnitude(scale->decode())};
}

void add_bound(ForwardBound const& bound, Case const& part, std::span<double> elements) {
  ProblemShape const& spec = part.spec;
  std::vector<double> const differences = largest_differences(part);
  std::vector<double> const weights = weight_sums(part);
  auto const levels = static_cast<std::size_t>(spec.level_count());
  auto const heads = static_cast<std::size_t>(spec.head_count);
  auto const channels = static_cast<std::size_t>(spec.head_dim);
  auto const item_rows = static_cast<std::size_t>(spec.query_count) * heads;
  for (std::size_t row = 0; channels > 0 && row < elements.size() / channels; ++row) {
    std::span<double> const bounds = elements.subspan(row * channels, channels);
    for (double& element : bounds) element = bound(element, 0, 0);
    for (std::size_t l = 0; l < levels; ++l) {
      std::int32_t const side = std::max(spec.levels[l].height, spec.levels[l].width);
      double const factor =
          (bound.slope_factor * side + bound.step_factor) * weights[row * levels + l];
      std::size_t const first = ((row / item_rows * levels + l) * heads + row % heads) * channels;
      for (std::size_t d = 0; d < channels; ++d) bounds[d] += factor * differences[first + d];
    }
    // Where infinities are summed there is no distance either, and the result has to be the same.
    for (double& element : bounds) element = std::isfinite(element) ? element : 0;
  }
}

}  // namespace msda::lab
