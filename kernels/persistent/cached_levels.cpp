#include "kernels/persistent/cached_levels.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace msda::persistent {

CachedLevels choose_cached_levels(Problem const& problem, std::int64_t pixel_bytes) {
  std::array<std::size_t, kInlineLevels> numbers;
  auto const order = std::span(numbers).first(problem.levels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // From the first pixel to the last one; borders lie between them.
  auto const bytes_of = [&](std::size_t l) {
    Level const& level = problem.levels[l];
    return ((level.height - 1) * level.row_tokens + level.width) * pixel_bytes;
  };
  std::ranges::stable_sort(order, {}, bytes_of);
  CachedLevels cached;
  for (std::size_t const l : order) {
    std::int64_t const lines = (bytes_of(l) + kLineBytes - 1) / kLineBytes;
    if (cached.shared_bytes() + lines * kLineBytes > kMaxCachedBytes) break;
    cached.levels |= std::uint32_t{1} << l;
    cached.begin[l] = cached.end;
    cached.bytes[l] = bytes_of(l);
    cached.end += lines * kLineBytes;
  }
  return cached;
}

namespace {

// Where levels are cached, each block has a grid range every round, and in it a tile of each group,
// for which it copies the group's levels. So a round reads no more values than L2 holds beside what
// streams through it.
constexpr double kCachedRoundBytes = 28e6;
constexpr std::int64_t kCopyingIndices = 12;  // jobs that could be done while levels are copied
constexpr double kMinBusy = 0.95;             // blocks, for ranges that each are of one group

}  // namespace

std::int64_t cached_rounds(double value_bytes) {
  return static_cast<std::int64_t>(
      std::clamp<double>(std::round(value_bytes / kCachedRoundBytes), 1, kMaxRounds));
}

GridRanges grid_ranges_of(std::int64_t jobs, std::int64_t groups, std::int64_t blocks,
                          double value_bytes) {
  std::int64_t const ranges = blocks * cached_rounds(value_bytes);
  std::int64_t const of_group = std::min(ranges / std::max<std::int64_t>(groups, 1), jobs);
  std::int64_t const indices = jobs + std::min(kCopyingIndices, jobs / 8);
  // Blocks that copy twice are late, so a few had better have nothing.
  if (static_cast<double>(of_group * groups) >= kMinBusy * static_cast<double>(ranges)) {
    std::int64_t const grid_range = (jobs + of_group - 1) / of_group;
    return {jobs, grid_range * of_group, grid_range};
  }
  return {jobs, indices, (indices * groups + ranges - 1) / ranges};
}

std::int64_t GridRanges::tile_count(std::int64_t groups) const {
  std::int64_t const end = group_indices * groups, copying = group_indices - jobs;
  std::int64_t tiles = 0;
  for (std::int64_t begin = 0; begin < end; begin += grid_range) {
    std::int64_t const range_end = std::min(begin + grid_range, end);
    for (std::int64_t index = begin; index < range_end;) {
      std::int64_t const group_begin = index / group_indices * group_indices;
      std::int64_t const next = std::min(group_begin + group_indices, range_end);
      if (next - group_begin > copying) ++tiles;
      index = next;
    }
  }
  return tiles;
}

}  // namespace msda::persistent
