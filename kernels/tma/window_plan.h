// How queries are dealt to tiles, and how large the windows of their points are.
#pragma once

#include "core/device.h"
#include "core/problem.h"
#include "kernels/tma/tensor_maps.h"
#include "kernels/tma/tma_config.h"

#include <cstdint>
#include <vector>

namespace msda::tma {

struct QueryTiles {
  std::vector<std::int32_t> order;  // [Q] queries, tile by tile; empty: as they come
  std::vector<std::int32_t> begin;  // [tiles + 1] places in the order
  // Of a tile on the finest grid of the first picture; 0 without grids.
  double width = 0, height = 0;  // fractions of the picture
};

// At most `most` queries a tile. By the query grids; without them, those of an encoder, whose
// queries are as many as the pixels; else runs of queries.
QueryTiles make_query_tiles(Problem const& problem, std::int64_t most);

// What a block's shared memory is dealt to.
struct WindowMemory {
  std::int32_t stages = 0;
  std::int64_t stage_bytes = 0;   // of each, whole lines
  std::int64_t shared_bytes = 0;  // all
};

// Of a device; stage_bytes is not positive where a block has too little.
WindowMemory window_memory(std::int32_t lanes, std::int32_t producers, std::int32_t stages,
                           Device const& device);

// Bytes of the smallest window that is worth having.
std::int64_t least_stage_bytes(Problem const& problem);

// Of each level that has points, as large as a stage holds and no larger than the points need.
void choose_windows(Problem const& problem, QueryTiles const& tiles, std::int64_t stage_bytes,
                    Box (&windows)[kInlineLevels]);

}  // namespace msda::tma
