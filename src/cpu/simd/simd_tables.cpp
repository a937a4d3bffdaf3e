#include "cpu/simd/simd_tables.h"

#include "core/dtype.h"
#include "cpu/simd/simd_kernel.h"

#include <cmath>
#include <limits>

namespace msda::simd {
namespace {

// Rounded up where float32 does not have the number: what is clamped to it is still outside.
// Two-component references have offsets in units of the size, and a number divided by 0 is none.
float size_of(std::int64_t pixels, Problem const& problem) {
  if (pixels == 0 && problem.reference_dim == 2) return std::numeric_limits<float>::quiet_NaN();
  auto const rounded = static_cast<float>(pixels);
  if (static_cast<std::int64_t>(rounded) >= pixels) return rounded;
  return std::nextafter(rounded, std::numeric_limits<float>::infinity());
}

// Up to this many bytes a head the values stay in the first two levels of cache by themselves.
constexpr std::int64_t kNearBytes = 128 * 1024;

}  // namespace

Tables::Tables(Problem const& problem, Gather gather_rows, std::pmr::memory_resource* memory)
    : levels(memory), zeros(memory), read(choose_readers(problem)), gather(gather_rows) {
  // Else no point is looked up, and sizes may be huge.
  bool const has_look_ups = problem.backward() ? problem.has_samples() : problem.has_points();
  if (!has_look_ups) return;
  auto const row_bytes =
      static_cast<std::size_t>(problem.head_dim * dtype_bytes(problem.value_dtype));
  zeros.resize(row_bytes);
  prefetch = problem.token_count * static_cast<std::int64_t>(row_bytes) > kNearBytes;
  constexpr std::int64_t kNarrow = std::numeric_limits<std::int32_t>::max();
  pixel_bytes = problem.value.row * dtype_bytes(problem.value_dtype);
  wide_strides = pixel_bytes > kNarrow;
  for (Level const& level : problem.levels) {
    wide_strides = wide_strides || (level.has_pixels() && level.row_tokens * pixel_bytes > kNarrow);
  }
  std::int64_t const of_query =
      static_cast<std::int64_t>(problem.levels.size()) * problem.reference_dim;
  auto const set = [&](PointLevels& block, std::int64_t i, Level const& level) {
    std::int64_t const row = i / problem.point_total, l = &level - problem.levels.data();
    block.width[i] = size_of(level.width, problem);
    block.height[i] = size_of(level.height, problem);
    block.half_step[i] = 0.5f / static_cast<float>(level.point_count);
    block.per_width[i] = 1.0f / static_cast<float>(level.width);
    block.per_height[i] = 1.0f / static_cast<float>(level.height);
    block.reference[i] = static_cast<std::int32_t>(row * of_query + l * problem.reference_dim);
    if (!level.has_pixels()) return;  // there are no places, and the products could overflow
    block.columns[i] = static_cast<std::int32_t>(level.width);
    block.rows[i] = static_cast<std::int32_t>(level.height);
    block.row_bytes[i] = level.row_tokens * pixel_bytes;
    block.origin[i] = level.origin * pixel_bytes;
  };
  levels.fill(problem, read.rows, set);
}

}  // namespace msda::simd
