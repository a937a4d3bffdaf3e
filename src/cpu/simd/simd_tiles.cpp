#include "cpu/simd/simd_tiles.h"

#include <algorithm>

namespace msda::simd {
namespace {

constexpr std::int64_t kTileSide = 16;  // of a tile in a grid
constexpr std::int64_t kRun = 64;       // queries of a tile without a grid

std::int64_t tiles_along(std::int64_t size, std::int64_t tile) { return (size + tile - 1) / tile; }

std::pmr::vector<Grid> grids_of(Problem const& problem, std::pmr::memory_resource* memory) {
  std::pmr::vector<Grid> grids(memory);
  if (!problem.query_grids.empty()) {
    grids.assign(problem.query_grids.begin(), problem.query_grids.end());
    return grids;
  }
  std::int64_t pixels = 0;
  for (Level const& level : problem.levels) pixels += level.height * level.width;
  if (pixels == problem.query_count) {
    for (Level const& level : problem.levels) grids.push_back({level.height, level.width});
  }
  return grids;
}

}  // namespace

Tiles::Tiles(Problem const& problem, std::pmr::memory_resource* memory) : grids_(memory) {
  std::pmr::vector<Grid> grids = grids_of(problem, memory);
  if (grids.empty()) {
    grids.push_back({1, problem.query_count});
    tile_width_ = kRun;
  } else {
    tile_height_ = tile_width_ = kTileSide;
  }
  std::int64_t query = 0;
  for (Grid const& grid : grids) {
    if (grid.height == 0 || grid.width == 0) continue;
    std::int64_t const columns = tiles_along(grid.width, tile_width_);
    grids_.push_back({grid, query, count_, columns});
    count_ += columns * tiles_along(grid.height, tile_height_);
    query += grid.height * grid.width;
  }
}

Tile Tiles::operator[](std::int64_t index) const {
  auto const after = std::upper_bound(
      grids_.begin(), grids_.end(), index,
      [](std::int64_t value, TiledGrid const& tiled) { return value < tiled.first_tile; });
  TiledGrid const& tiled = *(after - 1);
  std::int64_t const in_grid = index - tiled.first_tile;
  std::int64_t const y = in_grid / tiled.tile_columns * tile_height_;
  std::int64_t const x = in_grid % tiled.tile_columns * tile_width_;
  return {tiled.first_query + y * tiled.grid.width + x, std::min(tile_height_, tiled.grid.height - y),
          std::min(tile_width_, tiled.grid.width - x), tiled.grid.width};
}

}  // namespace msda::simd
