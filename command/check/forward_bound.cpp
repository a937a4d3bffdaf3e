#include "command/check/forward_bound.h"

#include "core/dtype.h"

#include <algorithm>
#include <cmath>

namespace msda::command {
namespace {

// Per [B][Q][M][L]: sum of |w| over the level's points, after the softmax of fused input.
std::vector<double> weight_sums(Case const& part) {
  ProblemShape const& spec = part.spec;
  std::vector<double> const weight = part.find(spec.fused() ? "logit" : "weight")->decode();
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

// Takes differences of pixels, one right of the other and one below the other, into [M][D].
void take_differences(std::vector<double> const& here, std::vector<double> const& below,
                      std::span<double> largest) {
  auto const take = [&largest](std::size_t channel, double difference) {
    // NaN and infinity have no distance.
    if (std::isfinite(difference)) largest[channel] = std::max(largest[channel], difference);
  };
  std::size_t const pixel = largest.size();
  for (std::size_t first = 0; first < here.size(); first += pixel) {
    // The last pixel of a row, zeros, is also the one before the first.
    std::size_t const right = first + pixel == here.size() ? 0 : first + pixel;
    for (std::size_t c = 0; c < pixel; ++c) {
      take(c, std::fabs(here[first + c] - here[right + c]));
      take(c, std::fabs(here[first + c] - below[first + c]));
    }
  }
}

}  // namespace

void apply_scale(Case const& part, std::span<double> elements) {
  Array const* const scale = part.find("value_scale");
  if (scale == nullptr) return;
  std::vector<double> const factors = scale->decode();
  auto const channels = static_cast<std::size_t>(part.spec.head_dim);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    elements[i] *= factors[i / channels % factors.size()];
  }
}

std::vector<double> largest_differences(Case const& part) {
  ProblemShape const& spec = part.spec;
  Array const& value = *part.find("value");
  auto const size = static_cast<std::size_t>(spec.head_count * spec.head_dim);
  std::size_t const pixel_bytes = size * type_bytes(value.type);
  std::int64_t const border = spec.value_border;
  std::vector<double> largest(static_cast<std::size_t>(spec.batch * spec.level_count()) * size);
  if (largest.empty()) return largest;
  std::vector<std::int64_t> const starts = spec.level_starts();
  for (std::int64_t i = 0; i < spec.batch * spec.level_count(); ++i) {
    auto const l = static_cast<std::size_t>(i % spec.level_count());
    LevelShape const& level = spec.levels[l];
    std::int64_t const token = i / spec.level_count() * spec.token_count() + starts[l];
    // [width + 1][M][D], zeros in the last pixel; zeros above and below the map.
    auto const row_at = [&](std::int64_t y) {
      std::vector<double> row;
      if (y >= 0 && y < level.height) {
        std::int64_t const first = token + (y + border) * (level.width + 2 * border) + border;
        row = decode_elements(value.type,
                              std::span(value.bytes)
                                  .subspan(static_cast<std::size_t>(first) * pixel_bytes,
                                           static_cast<std::size_t>(level.width) * pixel_bytes));
      }
      row.resize((static_cast<std::size_t>(level.width) + 1) * size);
      return row;
    };
    std::span<double> const out =
        std::span(largest).subspan(static_cast<std::size_t>(i) * size, size);
    std::vector<double> here = row_at(-1);
    for (std::int64_t y = -1; y < level.height; ++y) {
      std::vector<double> below = row_at(y + 1);
      take_differences(here, below, out);
      here = std::move(below);
    }
  }
  apply_scale(part, largest);
  for (double& difference : largest) difference = std::fabs(difference);
  return largest;
}

double largest_magnitude(std::span<double const> numbers) {
  double largest = 0;
  for (double const x : numbers) {
    if (std::isfinite(x)) largest = std::max(largest, std::fabs(x));
  }
  return largest;
}

double largest_magnitude(Array const& array) {
  constexpr std::size_t kChunk = std::size_t{1} << 16;
  std::size_t const chunk_bytes = kChunk * type_bytes(array.type);
  double largest = 0;
  for (std::size_t i = 0; i < array.bytes.size(); i += chunk_bytes) {
    auto const bytes =
        std::span(array.bytes).subspan(i, std::min(chunk_bytes, array.bytes.size() - i));
    largest = std::max(largest, largest_magnitude(decode_elements(array.type, bytes)));
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
  // MSDA_MATH_FAST may add this for products too small for float16.
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
  return {Arithmetic::kFloat16Sums, spec, largest_magnitude(*input.find("value")),
          scale == nullptr ? 1.0 : largest_magnitude(*scale)};
}

void add_bound(ForwardBound const& bound, Case const& part, std::span<double const> differences,
               std::span<double> elements) {
  ProblemShape const& spec = part.spec;
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
    // Sums of infinities have no distance either: the result has to be the same.
    for (double& element : bounds) element = std::isfinite(element) ? element : 0;
  }
}

}  // namespace msda::command
