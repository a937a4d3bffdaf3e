// The planning of this family: which problems it takes and what they cost, how the maps of a head
// are cut into tiles, how chunks are binned, and what a call holds in its workspace.
#pragma once

#include "kernels/common/plan.h"
#include "kernels/sorted/sorted.h"

namespace msda::sorted {

inline constexpr VariantTable kTable({
#define MSDA_VARIANT(type, ...) VariantRow<>{MSDA_VARIANT_OF("sorted", type, "", __VA_ARGS__)},
#include "rows/sorted.inc"
#undef MSDA_VARIANT
});

// ---- tiles and bins

struct Tiling {
  std::vector<TileLevel> levels;     // [L]
  std::vector<SumLevel> sum_levels;  // [L]
  std::int64_t tiles = 0;            // of a head
  std::int64_t sum_blocks = 0;       // of them, of one slice of channels
  std::int64_t border_pixels = 0;    // of all tiles of a head
  bool last_tiles_first = true;  // a tile of the last level has more records than one of the first
};
Tiling make_tiling(Problem const& problem);

// The points of one head, for the kernels; `shared_bytes` of a block that bins.
struct Bins {
  std::int64_t points;  // Q K
  std::int64_t chunk_points;
  std::int64_t chunks;
  std::int64_t tile_ranges;     // each is binned apart
  std::int64_t range_tiles;     // a multiple of kTilesOfThread
  std::int64_t range_counters;  // as many, and those of a thread behind them
  bool stages_records;          // before they are written, in the order of their tiles
  std::int64_t shared_bytes;
  std::int64_t part_records;  // at most, summed by one block
  std::int64_t max_parts;     // of tiles that are summed in parts
};
Bins make_bins(Problem const& problem, Tiling const& tiling, Device const& device);

// ---- passes and workspace

// The heads and queries that a call works on at a time, so that its arrays fit the workspace. A
// head's sums and a query's gradients have the same bits in every pass.
struct Passes {
  std::int64_t heads;    // of B M at a time, for the gradient of the values
  std::int64_t queries;  // of B Q at a time, for the gradients of the points
};

struct Planned {
  Tiling tiling;
  Bins bins;
  Passes passes;

  Planned(Problem const& problem, Device const& device);
};

// Takes the arrays of ValueParams or of PointParams that lie in the workspace. Bytes of a point: 16
// for its record, at most 2.2 for sums of parts; and 10 a tile and chunk. Or, fused, 16 for what
// its gradients are computed from.
void take_arrays(ValueParams& params, Problem const& problem, Bins const& bins, Arena& arena);
void take_arrays(PointParams& params, Problem const& problem, Arena& arena);

// Passes over heads and over queries follow each other: the longer ones say what the workspace has.
std::size_t workspace_bytes(Problem const& problem, Planned const& planned);

// ValueParams but for tables and arrays.
ValueParams value_params(Problem const& problem, Tiling const& tiling, Bins const& bins);

// ---- blocks of points

// Iterations of a block, where `blocks` would have one each.
std::int64_t iterations_of_block(std::int64_t blocks, std::int64_t most, std::int32_t sm_count);

// The launch of paired_point_gradients(), for all rows.
struct PairedLaunch {
  PairedParams params;  // but for point_levels and grad_coord_pairs
  std::int64_t blocks;
};

// rows: of an iteration of a block; points: of a group.
PairedLaunch paired_launch(Params const& p, std::int64_t rows, std::int64_t points,
                           std::int32_t sm_count);

}  // namespace msda::sorted
