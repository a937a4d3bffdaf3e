// The order in which queries are visited: neighbours in the picture sample neighbouring pixels, so a tile
// of them shares what the caches hold. The order never changes a result.
#pragma once

#include "core/problem.h"

#include <cstdint>
#include <memory_resource>
#include <vector>

namespace msda::simd {

// Queries first_query + row * pitch + column.
struct Tile {
  std::int64_t first_query;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t pitch;
};

class Tiles {
 public:
  // From the problem's query_hw; without it, when there are as many queries as pixels, from the levels (an
  // encoder attends from its own pixels); else runs of consecutive queries.
  Tiles(Problem const& problem, std::pmr::memory_resource* memory);

  std::int64_t count() const { return count_; }
  Tile operator[](std::int64_t index) const;

 private:
  struct TiledGrid {
    Grid grid;
    std::int64_t first_query;
    std::int64_t first_tile;
    std::int64_t tile_columns;
  };
  std::pmr::vector<TiledGrid> grids_;
  std::int64_t tile_height_ = 1;
  std::int64_t tile_width_ = 1;
  std::int64_t count_ = 0;
};

}  // namespace msda::simd
