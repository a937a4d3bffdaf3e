// Planning that families of packed rows share: the order of queries, the jobs of a problem, the
// limits of the engine, and the schedule. It needs no device code.
#pragma once

#include "kernels/common/plan.h"
#include "kernels/rows/layout.h"

namespace msda::rows {

// ---- the order of queries

// Queries that are the pixels of grids are worked on in tiles, so that those worked on at the same
// time look at the same pixels of the values. No result depends on it. The grids are the problem's
// query grids; without them those of an encoder, whose queries are as many as the pixels of all
// levels.
struct QueryOrder {
  std::vector<std::int32_t> queries;  // [Q]; empty: as they come
  // The tiles of the first picture, the largest, have queries of several grids, so that all of them
  // cost alike.
  bool mixes_grids = false;
};

// Whether queries are the pixels of grids: those that the problem names, or those of the levels.
bool has_query_grids(Problem const& problem);

// Pictures one after the other, each tile by tile.
QueryOrder query_order(Problem const& problem);

struct QueryTiles {
  std::vector<std::int32_t> order;  // [Q] queries, tile by tile; empty: as they come
  std::vector<std::int32_t> begin;  // [tiles + 1] places in the order
  // The size of a tile on the finest grid of the first picture, as a fraction of the picture; 0
  // without grids.
  double width = 0, height = 0;  // fractions of the picture
};

// Tiles of at most `max_queries` queries, cut so that `blocks` blocks that take them in turn are
// done at the same time; runs of queries where there are no grids.
QueryTiles make_query_tiles(Problem const& problem, std::int64_t max_queries, std::int64_t blocks);

// About how many tiles that makes, from the sizes of the grids alone.
std::int64_t count_query_tiles(Problem const& problem, std::int64_t max_queries);

// ---- jobs and limits

// The part of a kernel's id that the engine reads.
struct Entry {
  ValueType type;
  Channels channels;
  Points points;
  Spread spread;
};

inline std::int64_t item_bytes(Problem const& problem) {
  return problem.token_count * problem.value.row * dtype_bytes(problem.value_dtype);
}

inline double value_bytes(Problem const& problem) {
  return number(item_bytes(problem)) * number(problem.batch);
}

inline bool is_grouped(Entry const& entry, Problem const& problem) {
  return problem.head_count % heads_of_line(entry.channels, element_bytes(problem)) == 0;
}

inline Layout layout_for(Entry const& entry, Problem const& problem) {
  return layout_of(entry.channels, element_bytes(problem), entry.spread,
                   is_grouped(entry, problem));
}

struct Jobs {
  std::int64_t of_group;
  std::int64_t of_item;
};

inline Jobs jobs_of(Entry const& entry, Problem const& problem) {
  Layout const layout = layout_for(entry, problem);
  std::int64_t const of_group = divide_up(problem.query_count, layout.queries);
  return {of_group, of_group * (problem.head_count / layout.heads)};
}

inline constexpr std::int64_t kExactTokens = 1 << 24;  // that float32 counts

// True where a level is one that the fast path cannot sum: an empty one, or one of 2^24 tokens.
inline bool needs_exact_path(Problem const& problem) {
  return std::ranges::any_of(problem.levels, [](Level const& level) {
    return level.width < 1 || level.height < 1 ||
           level.row_tokens * (level.height + 2) >= kExactTokens;
  });
}

// The types of coordinates, weights and references, where they can be loaded in vectors.
inline InputTypes input_types(Problem const& problem) {
  bool const is_fused = problem.fused();
  if (is_fused && problem.reference_dtype != MSDA_DTYPE_F32) return inputs_any;
  auto const are_all = [&](msda_dtype dtype) {
    return problem.coord_dtype == dtype && problem.weight_dtype == dtype;
  };
  if (are_all(MSDA_DTYPE_F32)) return inputs_f32;
  bool const is_narrow = is_fused && dtype_bytes(problem.value_dtype) == 2;
  return is_narrow && are_all(problem.value_dtype) ? inputs_narrow : inputs_any;
}

// The bytes that a pixel has in the channels of a head group.
inline std::int64_t head_group_bytes(Entry const& entry, Problem const& problem) {
  return layout_for(entry, problem).heads * problem.head_dim * element_bytes(problem);
}

// The engine's reasons: channels, levels and points, and what fp16 sums ask for.
Reason reject_rows(Entry const& entry, Problem const& problem);
// True if tokens, the bytes of a batch item's values and from one head to the next fit 32 bits,
// and so do jobs and points of all items.
bool sizes_fit(Entry const& entry, Problem const& problem);
// True if rows come in whole groups of a lane, so that inputs can be loaded in vectors.
bool groups_are_whole(Entry const& entry, Problem const& problem);
bool levels_are_wide(Problem const& problem);  // two columns and two rows at least

// make_schedule() fills ScheduleParams but for what a call's buffers say, the order itself and
// cached levels.
ScheduleParams make_schedule(Entry const& entry, Problem const& problem, QueryOrder const& order,
                             Device const& device);

// The rounds that blocks with cached levels have where there are enough jobs.
std::int64_t cached_rounds(double value_bytes);

// Tile indices are dealt in grid ranges where levels are cached. They count the jobs of all head
// groups and, before those of each, as many as copying its levels is worth.
struct GridRanges {
  std::int64_t jobs;                // of a group
  std::int64_t head_group_indices;  // of a group
  std::int64_t grid_range;          // that a block has at a time

  // The number of tiles of all head groups: parts of a range in one group that have jobs. For each
  // a block copies the group's levels.
  std::int64_t tile_count(std::int64_t groups) const;
};
GridRanges grid_ranges_of(std::int64_t jobs, std::int64_t groups, std::int64_t blocks,
                          double value_bytes);
// Deals the jobs of a schedule whose blocks are known in grid ranges.
void deal_grid_ranges(ScheduleParams& schedule, Problem const& problem);

}  // namespace msda::rows
