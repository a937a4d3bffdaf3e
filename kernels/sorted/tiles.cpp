#include "kernels/sorted/tiles.h"

#include "kernels/common/divide_up.h"

#include <algorithm>

namespace msda::sorted {
namespace {

struct TileSize {
  std::int32_t width;
  std::int32_t height;
};
// Largest first. Cells are a power of two, as the lists of each are, so that together they fill the
// slots of a block.
constexpr TileSize kTileSizes[] = {{8, 8}, {8, 4}, {4, 4}, {4, 2}, {2, 2}};
static_assert(kTileSizes[0].width * kTileSizes[0].height == kMaxCells &&
              (kTileSizes[0].width + 1) * (kTileSizes[0].height + 1) == kMaxTilePixels);

// Records that a tile has at most where points are spread evenly. Of several rounds, with room for
// what chance adds to each: what comes once a tile is less of them. Fewer where tiles would be too
// few for a large GPU, whatever GPU it is: bits are the same on all.
double wanted_records(Problem const& problem) {
  constexpr double kLeastRounds = 1.5;
  constexpr double kMostRounds = 3;
  constexpr double kRoundsOfProblem = 2000;  // of each of a tile's
  constexpr double kFilled = 0.85;
  double const records = static_cast<double>(problem.batch * problem.head_count) *
                         static_cast<double>(problem.query_count * problem.point_total);
  double const rounds = records / (kRoundsOfProblem * kRound);
  return std::clamp(rounds, kLeastRounds, kMostRounds) * kFilled * kRound;
}

TileSize tile_size(Level const& level, std::int64_t query_count, double wanted) {
  double const cells = static_cast<double>(level.width + 1) * static_cast<double>(level.height + 1);
  double const points = static_cast<double>(level.point_count) * static_cast<double>(query_count);
  for (TileSize const size : kTileSizes) {
    if (size.width * size.height * points <= wanted * cells) return size;
  }
  return kTileSizes[std::size(kTileSizes) - 1];
}

double records_of_tile(Level const& level, SumLevel const& tiles) {
  return static_cast<double>(level.point_count) / static_cast<double>(std::max(tiles.tiles, 1));
}

SumLevel sum_level(std::int32_t first_tile, std::int64_t tiles, std::int64_t points) {
  bool const is_sparse = points <= kSparseRecords * tiles;
  return {first_tile, static_cast<std::int32_t>(tiles),
          static_cast<std::int32_t>(divide_up(tiles, is_sparse ? kSumWarps : 1)), is_sparse};
}

// Of a level with so many points.
std::int64_t max_pieces(std::int64_t points, SumLevel const& level, std::int64_t piece_records) {
  if (level.is_sparse) {
    return std::min<std::int64_t>(level.tiles, points / (kFewOfWarp + 1)) + points / piece_records;
  }
  return points <= piece_records ? 0 : 2 * points / piece_records;
}

PointLevel point_level(Level const& level) {
  if (level.width == 0 || level.height == 0) return {};
  return {static_cast<std::int32_t>(level.width), static_cast<std::int32_t>(level.height),
          static_cast<std::int32_t>(level.origin),
          level.height == 1 ? 0 : static_cast<std::int32_t>(level.row_tokens)};
}

}  // namespace

std::uint32_t multiplier(std::int64_t divisor) {
  return static_cast<std::uint32_t>(divide_up(std::int64_t{1} << 32, divisor));
}

Tiling make_tiling(Problem const& problem) {
  Tiling tiling;
  double const wanted = wanted_records(problem);
  for (Level const& level : problem.levels) {
    TileSize const size = tile_size(level, problem.query_count, wanted);
    TileLevel tile_level{};
    tile_level.width = static_cast<std::int32_t>(level.width);
    tile_level.height = static_cast<std::int32_t>(level.height);
    tile_level.tile_width = size.width;
    tile_level.tile_height = size.height;
    tile_level.by_width = multiplier(size.width);
    tile_level.by_height = multiplier(size.height);
    tile_level.by_pixels = multiplier(size.width + 1);
    tile_level.first_tile = static_cast<std::int32_t>(tiling.tiles);
    tile_level.border_pixels = 2 * (size.width + size.height);
    tile_level.first_border = tiling.border_pixels;
    tile_level.origin = level.origin;
    tile_level.row_tokens = level.row_tokens;
    if (level.width > 0 && level.height > 0) {
      std::int64_t const across = divide_up(level.width + 1, size.width);
      std::int64_t const tiles = across * divide_up(level.height + 1, size.height);
      tile_level.tiles_across = static_cast<std::int32_t>(across);
      tiling.tiles += tiles;
      tiling.border_pixels += tiles * tile_level.border_pixels;
    }
    auto const l = static_cast<std::int32_t>(tiling.levels.size());
    tiling.level_of_point.insert(tiling.level_of_point.end(),
                                 static_cast<std::size_t>(level.point_count), l);
    tiling.levels.push_back(tile_level);
    tiling.sum_levels.push_back(sum_level(tile_level.first_tile,
                                          tiling.tiles - tile_level.first_tile,
                                          level.point_count * problem.query_count));
    tiling.sum_blocks += tiling.sum_levels.back().blocks;
  }
  tiling.last_tiles_first = tiling.levels.empty() ||
                            records_of_tile(problem.levels.back(), tiling.sum_levels.back()) >=
                                records_of_tile(problem.levels.front(), tiling.sum_levels.front());
  return tiling;
}

std::vector<PointLevel> make_point_levels(Problem const& problem) {
  std::vector<PointLevel> levels;
  for (Level const& level : problem.levels) {
    levels.insert(levels.end(), static_cast<std::size_t>(level.point_count), point_level(level));
  }
  return levels;
}

Bins make_bins(Problem const& problem, Tiling const& tiling, Device const& device) {
  Bins bins{};
  bins.points = problem.query_count * problem.point_total;
  // Smaller chunks where there are too few points for all SMs.
  std::int64_t const of_thread = problem.batch * problem.head_count * bins.points /
                                 (kBinThreads * kBinBlocks * device.sm_count);
  bins.chunk_points = kBinThreads * std::clamp<std::int64_t>(of_thread, 1, kPointsOfThread);
  bins.chunks = divide_up(bins.points, bins.chunk_points);
  bins.windows = divide_up(tiling.tiles, kMaxWindowTiles);
  bins.window_tiles = bins.windows == 0
                          ? 0
                          : divide_up(tiling.tiles, bins.windows * kTilesOfThread) * kTilesOfThread;
  bins.stages_records = bins.chunk_points > kBinThreads;
  bins.window_counters = bins.window_tiles + kTilesOfThread;
  bins.shared_bytes =
      (bins.stages_records ? kStagedBytes : 0) + kWarpSumBytes + bins.window_counters * kTileBytes;
  bins.piece_records = kPieceRecords * divide_up(problem.head_dim, kMaxSlice);
  for (std::size_t l = 0; l < tiling.levels.size(); ++l) {
    bins.max_pieces += max_pieces(problem.levels[l].point_count * problem.query_count,
                                  tiling.sum_levels[l], bins.piece_records);
  }
  return bins;
}

}  // namespace msda::sorted
