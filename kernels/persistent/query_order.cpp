#include "kernels/persistent/query_order.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace msda::persistent {
namespace {

// Queries of the finest grid that make a tile; where others come with them, half as many.
constexpr std::int64_t kTileWidth = 8, kTileHeight = 32;

// The queries of a grid, and the number of the first one.
struct Part {
  Grid grid;
  std::int64_t first;

  std::int64_t count() const { return grid.height * grid.width; }
};

// As the caller says; else as many queries as pixels are an encoder's, whose queries are the
// pixels. No result depends on it.
std::vector<Part> parts_of(Problem const& problem) {
  std::vector<Part> parts;
  std::int64_t first = 0;
  auto const add = [&](Grid const& grid) {
    Part const part{grid, first};
    first += part.count();
    if (part.count() > 0) parts.push_back(part);
  };
  for (Grid const& grid : problem.query_grids) add(grid);
  if (!problem.query_grids.empty()) return parts;
  for (Level const& level : problem.levels) add({level.height, level.width});
  return first == problem.query_count ? parts : std::vector<Part>();
}

// Whether two grids have one shape, within a factor of 2: then they are of one picture.
bool are_alike(Grid const& a, Grid const& b) {
  std::int64_t const across = a.height * b.width, along = a.width * b.height;
  return across <= 2 * along && along <= 2 * across;
}

struct Tiles {
  std::vector<std::uint32_t> of_query;
  std::uint32_t count = 0;
};

// Tiles of one picture. Each has the queries of all its grids that lie in one part of it: they look
// at the same pixels, whichever grid they are of.
void add_tiles(std::span<Part const> picture, Grid const& finest, Tiles& tiles) {
  std::int64_t const tile_height = picture.size() > 1 ? kTileHeight / 2 : kTileHeight;
  std::int64_t const across = (finest.width + kTileWidth - 1) / kTileWidth;
  std::int64_t const down = (finest.height + tile_height - 1) / tile_height;
  // The centre of pixel y of n is at (y + 1/2) finest / n of the finest grid.
  auto const tile_of = [](std::int64_t y, std::int64_t n, std::int64_t finest, std::int64_t tile) {
    return (2 * y + 1) * finest / (2 * n * tile);
  };
  for (Part const& part : picture) {
    auto query = static_cast<std::size_t>(part.first);
    for (std::int64_t y = 0; y < part.grid.height; ++y) {
      std::int64_t const row = tile_of(y, part.grid.height, finest.height, tile_height) * across;
      for (std::int64_t x = 0; x < part.grid.width; ++x) {
        std::int64_t const column = tile_of(x, part.grid.width, finest.width, kTileWidth);
        tiles.of_query[query++] = tiles.count + static_cast<std::uint32_t>(row + column);
      }
    }
  }
  tiles.count += static_cast<std::uint32_t>(across * down);
}

}  // namespace

QueryOrder query_order(Problem const& problem) {
  std::vector<Part> parts = parts_of(problem);
  if (parts.empty()) return {};
  QueryOrder order;
  Tiles tiles;
  tiles.of_query.resize(static_cast<std::size_t>(problem.query_count));
  for (auto rest = std::span(parts); !rest.empty();) {
    Grid const finest = std::ranges::max_element(rest, {}, &Part::count)->grid;
    auto const others = std::ranges::stable_partition(
        rest, [&](Part const& part) { return are_alike(part.grid, finest); });
    auto const picture = rest.first(rest.size() - others.size());
    if (tiles.count == 0) order.mixes_grids = picture.size() > 1;
    add_tiles(picture, finest, tiles);
    rest = others;
  }
  // Tile by tile, in each as they come.
  std::vector<std::uint32_t> next(tiles.count);
  for (std::uint32_t const tile : tiles.of_query) ++next[tile];
  std::exclusive_scan(next.begin(), next.end(), next.begin(), std::uint32_t{0});
  order.queries.resize(tiles.of_query.size());
  for (std::size_t query = 0; query < tiles.of_query.size(); ++query) {
    order.queries[next[tiles.of_query[query]]++] = static_cast<std::int32_t>(query);
  }
  return order;
}

}  // namespace msda::persistent
