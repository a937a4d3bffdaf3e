#include "cpu/simd/simd_visit.h"

#include <algorithm>
#include <limits>

namespace msda::simd {
namespace {

constexpr std::int64_t kTileSide = 16;  // queries

void append_tiles(Grid const& grid, std::int64_t first_query,
                  std::pmr::vector<std::int32_t>& visit) {
  for (std::int64_t top = 0; top < grid.height; top += kTileSide) {
    std::int64_t const bottom = std::min(top + kTileSide, grid.height);
    for (std::int64_t left = 0; left < grid.width; left += kTileSide) {
      std::int64_t const right = std::min(left + kTileSide, grid.width);
      for (std::int64_t y = top; y < bottom; ++y) {
        for (std::int64_t x = left; x < right; ++x) {
          visit.push_back(static_cast<std::int32_t>(first_query + y * grid.width + x));
        }
      }
    }
  }
}

}  // namespace

std::pmr::vector<std::int32_t> visiting_order(Problem const& problem,
                                              std::pmr::memory_resource* memory) {
  std::pmr::vector<Grid> grids(problem.query_grids.begin(), problem.query_grids.end(), memory);
  if (grids.empty()) {
    std::int64_t pixels = 0;
    for (Level const& level : problem.levels) {
      grids.push_back({level.height, level.width});
      pixels += level.height * level.width;
    }
    if (pixels != problem.query_count) grids.clear();
  }
  std::pmr::vector<std::int32_t> visit(memory);
  if (grids.empty() || problem.query_count > std::numeric_limits<std::int32_t>::max()) return visit;
  visit.reserve(static_cast<std::size_t>(problem.query_count));
  std::int64_t first_query = 0;
  for (Grid const& grid : grids) {
    append_tiles(grid, first_query, visit);
    first_query += grid.height * grid.width;
  }
  return visit;
}

}  // namespace msda::simd
