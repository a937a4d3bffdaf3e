// Which levels a block caches in shared memory, and where.
#pragma once

#include "core/problem.h"
#include "kernels/common/params.h"
#include "kernels/persistent/layout.h"

#include <array>
#include <cstdint>

namespace msda::persistent {

struct CachedLevels {
  std::uint32_t levels = 0;                         // bit l for level l
  std::array<std::int64_t, kInlineLevels> begin{};  // of each, a multiple of kLineBytes
  std::array<std::int64_t, kInlineLevels> bytes{};  // of each
  std::int64_t end = 0;                             // of all

  // The kernel begins at a whole line.
  std::int64_t shared_bytes() const { return end + kLineBytes; }
};

// The smallest levels, as many as fit kMaxCachedBytes. A pixel there has `pixel_bytes`.
CachedLevels choose_cached_levels(Problem const& problem, std::int64_t pixel_bytes);

// Rounds where levels are cached and there are enough jobs.
std::int64_t cached_rounds(double value_bytes);

// How tile indices are dealt where levels are cached. They count the jobs of all groups and, before
// those of each, as many as copying its levels is worth.
struct GridRanges {
  std::int64_t jobs;           // of a group
  std::int64_t group_indices;  // of a group
  std::int64_t grid_range;     // that a block has at a time

  // Of all groups: parts of a range in one group that have jobs. For each a block copies the
  // group's levels.
  std::int64_t tile_count(std::int64_t groups) const;
};
GridRanges grid_ranges_of(std::int64_t jobs, std::int64_t groups, std::int64_t blocks,
                          double value_bytes);

}  // namespace msda::persistent
