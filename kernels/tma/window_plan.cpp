#include "kernels/tma/window_plan.h"

#include "core/dtype.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace msda::tma {
namespace {

constexpr std::int64_t kTileWidth = 8;  // queries of the finest grid
// Pixels on each side of a tile that its points may lie beside it. Windows that held 99 % of the
// points of local workloads had 4 to 8; what they hold is read from L2 for every tile anew. A tile
// without a place has all that a stage holds.
constexpr std::int32_t kMaxMargin = 6;
constexpr std::int32_t kLeastSide = 4;

// The queries of a grid, and the number of the first one.
struct Part {
  Grid grid;
  std::int64_t first;
};

// As the caller says; else as many queries as pixels are an encoder's. No result depends on it.
std::vector<Part> parts_of(Problem const& problem) {
  std::vector<Part> parts;
  std::int64_t first = 0;
  auto const add = [&](Grid const& grid) {
    std::int64_t const count = grid.height * grid.width;
    if (count > 0) parts.push_back({grid, first});
    first += count;
  };
  for (Grid const& grid : problem.query_grids) add(grid);
  if (!problem.query_grids.empty()) return parts;
  for (Level const& level : problem.levels) add({level.height, level.width});
  return first == problem.query_count ? parts : std::vector<Part>();
}

Grid finest_of(std::span<Part const> parts) {
  auto const count = [](Part const& part) { return part.grid.height * part.grid.width; };
  return std::ranges::max_element(parts, {}, count)->grid;
}

// The tile of each query: those whose centres lie in one part of the picture, whichever grid they
// are of.
std::vector<std::uint32_t> tiles_of(std::span<Part const> parts, Grid const& finest,
                                    std::int64_t height, std::int64_t queries) {
  std::vector<std::uint32_t> tile(static_cast<std::size_t>(queries));
  std::int64_t const across = (finest.width + kTileWidth - 1) / kTileWidth;
  auto const tile_at = [](std::int64_t at, std::int64_t n, std::int64_t side, std::int64_t size) {
    return (2 * at + 1) * side / (2 * n * size);
  };
  for (Part const& part : parts) {
    auto query = static_cast<std::size_t>(part.first);
    for (std::int64_t y = 0; y < part.grid.height; ++y) {
      std::int64_t const row = tile_at(y, part.grid.height, finest.height, height) * across;
      for (std::int64_t x = 0; x < part.grid.width; ++x) {
        tile[query++] =
            static_cast<std::uint32_t>(row + tile_at(x, part.grid.width, finest.width, kTileWidth));
      }
    }
  }
  return tile;
}

std::vector<std::int32_t> counts_of(std::span<std::uint32_t const> tile) {
  std::vector<std::int32_t> counts;
  if (!tile.empty()) counts.resize(std::ranges::max(tile) + std::size_t{1});
  for (std::uint32_t const t : tile) ++counts[t];
  return counts;
}

// Tiles of more queries than `most` become several, empty ones none.
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

QueryTiles make_query_tiles(Problem const& problem, std::int64_t most) {
  QueryTiles tiles;
  std::vector<Part> const parts = parts_of(problem);
  if (parts.empty()) {
    auto const all = static_cast<std::int32_t>(problem.query_count);
    tiles.begin = split({&all, 1}, most);
    return tiles;
  }
  Grid const finest = finest_of(parts);
  std::vector<std::uint32_t> tile;
  std::vector<std::int32_t> counts;
  std::int64_t height = std::max<std::int64_t>(most / kTileWidth, 1) + 1;
  do {
    --height;
    tile = tiles_of(parts, finest, height, problem.query_count);
    counts = counts_of(tile);
  } while (height > 1 && std::ranges::max(counts) > most);
  tiles.width = static_cast<double>(kTileWidth) / static_cast<double>(finest.width);
  tiles.height = static_cast<double>(height) / static_cast<double>(finest.height);
  tiles.begin = split(counts, most);
  std::exclusive_scan(counts.begin(), counts.end(), counts.begin(), 0);
  tiles.order.resize(tile.size());
  for (std::size_t query = 0; query < tile.size(); ++query) {
    tiles.order[static_cast<std::size_t>(counts[tile[query]]++)] = static_cast<std::int32_t>(query);
  }
  return tiles;
}

WindowMemory window_memory(std::int32_t lanes, std::int32_t producers, std::int32_t stages,
                           Device const& device) {
  std::int64_t const records =
      std::int64_t{kWindowWarps - producers} * warp_record_bytes(lanes) + kAlignmentSlack;
  std::int64_t const left = device.shared_bytes_per_block - kStaticSharedBytes - records;
  std::int64_t const stage_bytes = left / stages / kLineBytes * kLineBytes;
  return {stages, stage_bytes, stage_bytes * stages + records};
}

std::int64_t least_stage_bytes(Problem const& problem) {
  return std::int64_t{kLeastSide} * kLeastSide * problem.head_dim *
         dtype_bytes(problem.value_dtype);
}

void choose_windows(Problem const& problem, QueryTiles const& tiles, std::int64_t stage_bytes,
                    Box (&windows)[kInlineLevels]) {
  std::int64_t const most =
      stage_bytes / (problem.head_dim * dtype_bytes(problem.value_dtype));  // pixels
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    if (level.point_count == 0) continue;
    bool const has_place = tiles.width > 0;
    double const across = std::min(tiles.width, 1.0) * static_cast<double>(level.width);
    double const down = std::min(tiles.height, 1.0) * static_cast<double>(level.height);
    auto const window_of = [&](std::int32_t margin) -> Box {
      auto const side = [margin](double of_tile, std::int64_t of_level) {
        std::int64_t const wanted = static_cast<std::int64_t>(std::ceil(of_tile)) + 2 * margin;
        return std::min<std::int64_t>({wanted, of_level + 3, kMaxBoxSide});
      };
      return {static_cast<std::int32_t>((side(across, level.width) + 1) / 2 * 2),
              static_cast<std::int32_t>(side(down, level.height))};
    };
    windows[l] = {kLeastSide, kLeastSide};
    for (std::int32_t margin = 0; margin <= (has_place ? kMaxMargin : kMaxBoxSide); ++margin) {
      Box const wider = window_of(margin);
      if (std::int64_t{wider.columns} * wider.rows > most) break;
      if (wider.columns >= 2 && wider.rows >= 2) windows[l] = wider;
    }
  }
}

}  // namespace msda::tma
