#include "kernels/persistent/query_order.h"

#include <algorithm>
#include <vector>

namespace msda::persistent {
namespace {

constexpr std::int64_t kTile = 16;  // queries on a side

std::vector<std::int32_t> tiled_order(Problem const& problem) {
  std::vector<std::int32_t> order;
  if (problem.query_grids.empty()) return order;
  order.reserve(static_cast<std::size_t>(problem.query_count));
  std::int64_t first = 0;
  for (Grid const& grid : problem.query_grids) {
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
