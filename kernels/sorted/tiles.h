// How the maps of a head are cut into tiles of cells, and what binning the points by tile takes.
//
// A cell is where points with the same four corners lie: cell (x, y) has the pixels x - 1 and x,
// y - 1 and y; a map of W x H pixels has W + 1 by H + 1 of them. A tile is a rectangle of cells;
// its pixels are those of its cells, so that neighbouring tiles share pixels.
#pragma once

#include "core/device.h"
#include "core/problem.h"
#include "kernels/sorted/sorted.h"

#include <cstdint>
#include <vector>

namespace msda::sorted {

struct Tiling {
  std::vector<TileLevel> levels;             // [L]
  std::vector<SumLevel> sum_levels;          // [L]
  std::vector<std::int32_t> level_of_point;  // [K]
  std::int64_t tiles = 0;                    // of a head
  std::int64_t sum_blocks = 0;               // of them, of one slice of channels
  std::int64_t border_pixels = 0;            // of all tiles of a head
  bool last_tiles_first = true;              // of which level a tile has most records
};
Tiling make_tiling(Problem const& problem);
// [K]
std::vector<PointLevel> make_point_levels(Problem const& problem);

// ceil(2^32 / divisor), of 2 or more: the upper half of a small number's product is its quotient.
std::uint32_t multiplier(std::int64_t divisor);

// Of one head, for the kernels; `shared_bytes` of a block that bins.
struct Bins {
  std::int64_t points;  // Q K
  std::int64_t chunk_points;
  std::int64_t chunks;
  std::int64_t windows;          // binning passes over the points, for as many tiles each
  std::int64_t window_tiles;     // a multiple of kTilesOfThread
  std::int64_t window_counters;  // as many, and those of a thread behind them
  bool stages_records;           // before they are written, in the order of their tiles
  std::int64_t shared_bytes;
  std::int64_t piece_records;  // at most, summed by one block
  std::int64_t max_pieces;     // of tiles that have more than one
};
Bins make_bins(Problem const& problem, Tiling const& tiling, Device const& device);

}  // namespace msda::sorted
