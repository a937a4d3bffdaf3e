#include "kernels/rows/query_tiles.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace msda::rows {
namespace {

// Queries of the finest grid that make a tile of query_order(); where others come with them, half
// as many rows.
constexpr std::int64_t kTileWidth = 8, kTileHeight = 32;

// A part is the queries of one grid; `first` is the number of its first query.
struct Part {
  Grid grid;
  std::int64_t first;

  std::int64_t count() const { return grid.height * grid.width; }
};

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

Grid finest_of(std::span<Part const> parts) {
  return std::ranges::max_element(parts, {}, &Part::count)->grid;
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

// Tiles of one picture, kTileWidth by `height` queries of its finest grid. Each has the queries of
// all grids whose centres lie in one part of the picture: they look at the same pixels, whichever
// grid they are of.
void add_tiles(std::span<Part const> picture, Grid const& finest, std::int64_t height,
               Tiles& tiles) {
  std::int64_t const across = (finest.width + kTileWidth - 1) / kTileWidth;
  std::int64_t const down = (finest.height + height - 1) / height;
  // The centre of pixel y of n is at (y + 1/2) finest / n of the finest grid.
  auto const tile_of = [](std::int64_t y, std::int64_t n, std::int64_t finest, std::int64_t tile) {
    return (2 * y + 1) * finest / (2 * n * tile);
  };
  for (Part const& part : picture) {
    auto query = static_cast<std::size_t>(part.first);
    for (std::int64_t y = 0; y < part.grid.height; ++y) {
      std::int64_t const row = tile_of(y, part.grid.height, finest.height, height) * across;
      for (std::int64_t x = 0; x < part.grid.width; ++x) {
        std::int64_t const column = tile_of(x, part.grid.width, finest.width, kTileWidth);
        tiles.of_query[query++] = tiles.count + static_cast<std::uint32_t>(row + column);
      }
    }
  }
  tiles.count += static_cast<std::uint32_t>(across * down);
}

std::vector<std::int32_t> query_counts(Tiles const& tiles) {
  std::vector<std::int32_t> counts(tiles.count);
  for (std::uint32_t const tile : tiles.of_query) ++counts[tile];
  return counts;
}

// Queries tile by tile, in each as they come.
std::vector<std::int32_t> tile_by_tile(Tiles const& tiles, std::vector<std::int32_t> counts) {
  std::exclusive_scan(counts.begin(), counts.end(), counts.begin(), 0);
  std::vector<std::int32_t> order(tiles.of_query.size());
  for (std::size_t query = 0; query < order.size(); ++query) {
    order[static_cast<std::size_t>(counts[tiles.of_query[query]]++)] =
        static_cast<std::int32_t>(query);
  }
  return order;
}

// Returns where tiles begin: a tile of more queries than `most` becomes several, an empty one
// none.
std::vector<std::int32_t> split(std::span<std::int32_t const> counts, std::int64_t most) {
  std::vector<std::int32_t> begin = {0};
  for (std::int64_t left : counts) {
    for (; left > 0; left -= std::min(left, most)) {
      begin.push_back(begin.back() + static_cast<std::int32_t>(std::min(left, most)));
    }
  }
  return begin;
}

}  // namespace

QueryOrder query_order(Problem const& problem) {
  bool const has_rows = problem.batch > 0 && problem.head_count > 0;
  std::vector<Part> parts = has_rows ? parts_of(problem) : std::vector<Part>();
  if (parts.empty()) return {};
  QueryOrder order;
  Tiles tiles;
  tiles.of_query.resize(static_cast<std::size_t>(problem.query_count));
  for (auto rest = std::span(parts); !rest.empty();) {
    Grid const finest = finest_of(rest);
    auto const others = std::ranges::stable_partition(
        rest, [&](Part const& part) { return are_alike(part.grid, finest); });
    auto const picture = rest.first(rest.size() - others.size());
    bool const mixes_grids = picture.size() > 1;
    if (tiles.count == 0) order.mixes_grids = mixes_grids;
    add_tiles(picture, finest, mixes_grids ? kTileHeight / 2 : kTileHeight, tiles);
    rest = others;
  }
  order.queries = tile_by_tile(tiles, query_counts(tiles));
  return order;
}

QueryTiles make_query_tiles(Problem const& problem, std::int64_t max_queries) {
  QueryTiles result;
  std::vector<Part> const parts = parts_of(problem);
  if (parts.empty()) {
    auto const all = static_cast<std::int32_t>(problem.query_count);
    result.begin = split({&all, 1}, max_queries);
    return result;
  }
  Grid const finest = finest_of(parts);
  Tiles tiles;
  std::vector<std::int32_t> counts;
  std::int64_t height = std::max<std::int64_t>(max_queries / kTileWidth, 1) + 1;
  do {
    --height;
    tiles = {std::vector<std::uint32_t>(static_cast<std::size_t>(problem.query_count)), 0};
    add_tiles(parts, finest, height, tiles);
    counts = query_counts(tiles);
  } while (height > 1 && std::ranges::max(counts) > max_queries);
  result.width = static_cast<double>(kTileWidth) / static_cast<double>(finest.width);
  result.height = static_cast<double>(height) / static_cast<double>(finest.height);
  result.begin = split(counts, max_queries);
  result.order = tile_by_tile(tiles, std::move(counts));
  return result;
}

}  // namespace msda::rows
