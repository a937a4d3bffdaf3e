// The family's model: the rows of variants.inc, one kernel id for each size of a cluster, which
// problems they take and what they cost. It needs no device code.
#pragma once

#include "kernels/cluster/cluster.h"
#include "kernels/rows/plan.h"

namespace msda::cluster {

// The parts of a kernel's id.
struct Entry {
  rows::Entry rows;
  std::int32_t size;  // blocks of a cluster
};

// Calls row(size, ...) for each size of a row of variants.inc.
#define MSDA_ROWS_size_2(row, ...) row(2, __VA_ARGS__)
#define MSDA_ROWS_all_sizes(row, ...)                                             \
  row(1, __VA_ARGS__) row(2, __VA_ARGS__) row(4, __VA_ARGS__) row(8, __VA_ARGS__) \
      row(16, __VA_ARGS__)

#define MSDA_VARIANT(type, channels, points, spread, sizes, ...) \
  MSDA_ROWS_##sizes(MSDA_ROW, type, channels, points, spread, __VA_ARGS__)
#define MSDA_ROW(size, type, channels, points, spread, ...)                              \
  VariantRow<Entry>{                                                                     \
      MSDA_VARIANT_OF("cluster", type, "." #channels "." #points "." #spread ".c" #size, \
                      __VA_ARGS__),                                                      \
      {{ValueType::type, channels, points, spread}, size}},
inline constexpr VariantTable kTable({
#include "rows/cluster.inc"
});
#undef MSDA_ROW
#undef MSDA_VARIANT

extern const FamilyModel kModel;

// ---- which levels the blocks of a cluster cache in shared memory, and where

// A block's part of the cached levels; see CacheParams.
struct CachedLevels {
  std::uint32_t levels = 0;                              // bit l for level l
  std::uint32_t split = 0;                               // of them, those whose rows alternate
  std::array<std::int64_t, kInlineLevels> begin{};       // bytes, a multiple of a line
  std::array<std::int64_t, kInlineLevels> row_pixels{};  // from a row to the next one
  std::int64_t bytes = 0;                                // of all
  std::int64_t buffers = 1;                              // that fit

  bool has(std::size_t l) const { return (levels >> l & 1) != 0; }
  bool splits(std::size_t l) const { return (split >> l & 1) != 0; }
};

// Chooses as many levels as fit max_bytes, the smallest ones first. As many of them as possible
// are whole, the smallest ones first, and the others have their rows spread over the blocks. It
// chooses none where not even the smallest one fits.
CachedLevels choose_cached_levels(Problem const& problem, std::int64_t pixel_bytes,
                                  std::int64_t size, std::int64_t max_bytes);

// Bytes of a block that caching the smallest level would take.
std::int64_t least_cached_bytes(Problem const& problem, std::int64_t pixel_bytes,
                                std::int64_t size);

// The levels that the variant caches of a problem.
CachedLevels cached_levels_of(Entry const& entry, Problem const& problem);

CacheParams cache_params(Entry const& entry, Problem const& problem, CachedLevels const& levels);
// The schedule of blocks that cache levels, with clusters for blocks.
ScheduleParams cluster_schedule(Entry const& entry, Problem const& problem, QueryOrder const& order,
                                Device const& device, CachedLevels const& cached,
                                std::int64_t clusters);

}  // namespace msda::cluster
