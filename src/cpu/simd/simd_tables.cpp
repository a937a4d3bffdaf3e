#include "cpu/simd/simd_tables.h"

#include "core/dtype.h"

namespace msda::simd {
namespace {

// The widest vector of any target, in lanes of 32 bits: arrays are padded to it.
constexpr std::int64_t kLargestLanes = 16;

}  // namespace

Tables::Tables(Problem const& problem, std::pmr::memory_resource* memory)
    : width(memory),
      height(memory),
      columns(memory),
      rows(memory),
      origin(memory),
      pitch(memory),
      zeros(memory),
    tiles(problem, memory) {
  padded_points = (problem.point_total + kLargestLanes - 1) / kLargestLanes * kLargestLanes;
  auto const count = static_cast<std::size_t>(padded_points);
  width.resize(count);
  height.resize(count);
  columns.resize(count);
  rows.resize(count);
  origin.resize(count);
  pitch.resize(count);
  for (Level const& level : problem.levels) {
    for (std::int64_t k = level.point_start; k < level.point_start + level.point_count; ++k) {
      auto const i = static_cast<std::size_t>(k);
      width[i] = static_cast<float>(level.width);
      height[i] = static_cast<float>(level.height);
      columns[i] = static_cast<std::int32_t>(level.width);
      rows[i] = static_cast<std::int32_t>(level.height);
      origin[i] = static_cast<std::int32_t>(level.origin);
      pitch[i] = static_cast<std::int32_t>(level.row_tokens);
    }
  }
  zeros.resize(static_cast<std::size_t>(problem.head_dim * dtype_bytes(problem.value_dtype)));
}

}  // namespace msda::simd
