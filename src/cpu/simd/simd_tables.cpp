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
    : levels(memory),
      zeros(memory),
      read_points(choose_read_points(problem)),
      read_softmax(choose_read_softmax(problem)),
      locate(choose_locate(problem)),
      gather(gather_rows) {
  // Never empty: the first block is looked up even where there are no points.
  levels.resize(static_cast<std::size_t>(problem.point_total / kPointBlock + 1));
  zeros.resize(static_cast<std::size_t>(problem.head_dim * dtype_bytes(problem.value_dtype)));

  prefetch = problem.token_count * static_cast<std::int64_t>(zeros.size()) > kNearBytes;
  constexpr std::int64_t kNarrow = std::numeric_limits<std::int32_t>::max();
  pixel_bytes = problem.value.row * dtype_bytes(problem.value_dtype);
  wide_strides = pixel_bytes > kNarrow;
  for (Level const& level : problem.levels) {
    for (std::int64_t k = level.point_start; k < level.point_start + level.point_count; ++k) {
      PointLevels& block = levels[static_cast<std::size_t>(k / kPointBlock)];
      std::int64_t const i = k % kPointBlock;
      block.width[i] = size_of(level.width, problem);
      block.height[i] = size_of(level.height, problem);
      block.half_step[i] = 0.5f / static_cast<float>(level.point_count);
      block.columns[i] = static_cast<std::int32_t>(level.width);
      block.rows[i] = static_cast<std::int32_t>(level.height);
      block.row_bytes[i] = level.row_tokens * pixel_bytes;
      block.origin[i] = level.origin * pixel_bytes;
      wide_strides = wide_strides || block.row_bytes[i] > kNarrow;
    }
  }
}

}  // namespace msda::simd
