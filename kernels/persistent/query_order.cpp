#include "kernels/persistent/query_order.h"

#include <algorithm>
#include <vector>

namespace msda::persistent {
namespace {

constexpr std::int64_t kTile = 16;  // queries on a side

// As the caller says; else as many queries as pixels are an encoder's, whose queries are the
// pixels. No result depends on it.
std::vector<Grid> grids_of(Problem const& problem) {
  if (!problem.query_grids.empty()) return {problem.query_grids.begin(), problem.query_grids.end()};
  std::vector<Grid> grids;
  std::int64_t pixels = 0;
  for (Level const& level : problem.levels) {
    grids.push_back({level.height, level.width});
    pixels += level.height * level.width;
  }
  return pixels == problem.query_count ? grids : std::vector<Grid>();
}

std::vector<std::int32_t> tiled_order(Problem const& problem) {
  std::vector<std::int32_t> order;
  std::vector<Grid> const grids = grids_of(problem);
  if (grids.empty()) return order;
  order.reserve(static_cast<std::size_t>(problem.query_count));
  std::int64_t first = 0;
  for (Grid const& grid : grids) {
    for (std::int64_t y0 = 0; y0 < grid.height; y0 += kTile) {
      for (std::int64_t x0 = 0; x0 < grid.width; x0 += kTile) {
        for (std::int64_t y = y0; y < std::min(y0 + kTile, grid.height); ++y) {
          for (std::int64_t x = x0; x < std::min(x0 + kTile, grid.width); ++x) {
            order.push_back(static_cast<std::int32_t>(first + y * grid.width + x));
          }
        }
      }
    }
    first += grid.height * grid.width;
  }
  return order;
}

}  // namespace

QueryOrder::QueryOrder(Problem const& problem, Device const& device)
    : order_(tiled_order(problem), device) {}

}  // namespace msda::persistent
