#include "kernels/sorted/runs.h"

#include <algorithm>
#include <bit>

namespace msda::sorted {
namespace {

std::size_t count_of(std::int64_t count) { return static_cast<std::size_t>(count); }

std::size_t value_bytes(Problem const& problem, Tiling const& tiling, Bins const& bins,
                        std::int64_t heads) {
  ValueParams params = value_params(problem, tiling, bins);
  params.heads = static_cast<std::int32_t>(heads);
  Arena arena;
  take_arrays(params, problem, bins, arena);
  return arena.used_bytes();
}

std::size_t point_bytes(Problem const& problem, std::int64_t queries) {
  PointParams params{};
  params.queries = queries;
  Arena arena;
  take_arrays(params, problem, arena);
  return arena.used_bytes();
}

constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 30;  // of a launch

// Of quotient() in warps.cuh.
std::uint32_t quotient_multiplier(std::int64_t divisor) {
  return static_cast<std::uint32_t>(UINT32_MAX / std::max<std::int64_t>(divisor, 1));
}

// A thread's begins are whole words, and there is one behind those of all tiles.
std::int64_t begin_stride(std::int64_t tiles) {
  return (tiles / kTilesOfThread + 1) * kTilesOfThread;
}

// Within a window, too: tiles of a level differ by less than there are.
std::int32_t level_tile_bits(Tiling const& tiling) {
  std::uint32_t most = 0;
  std::int64_t end = tiling.tiles;
  for (std::size_t l = tiling.levels.size(); l-- > 0;) {
    std::int64_t const first = tiling.levels[l].first_tile;
    most = std::max(most, static_cast<std::uint32_t>(std::max<std::int64_t>(end - first, 1) - 1));
    end = first;
  }
  return std::min<std::int32_t>(std::bit_width(most), kTileBits);
}

}  // namespace

ValueParams value_params(Problem const& problem, Tiling const& tiling, Bins const& bins) {
  ValueParams params{};
  params.border_pixels = tiling.border_pixels;
  params.points = static_cast<std::int32_t>(bins.points);
  params.level_count = static_cast<std::int32_t>(tiling.levels.size());
  params.tiles = static_cast<std::int32_t>(tiling.tiles);
  params.sum_blocks = static_cast<std::int32_t>(tiling.sum_blocks);
  params.chunks = static_cast<std::int32_t>(bins.chunks);
  params.points_of_thread = static_cast<std::int32_t>(bins.chunk_points / kBinThreads);
  params.windows = static_cast<std::int32_t>(bins.windows);
  params.window_tiles = static_cast<std::int32_t>(bins.window_tiles);
  params.level_tile_bits = level_tile_bits(tiling);
  params.window_counters = static_cast<std::int32_t>(bins.window_counters);
  params.begin_stride = static_cast<std::int32_t>(begin_stride(tiling.tiles));
  params.stages_records = bins.stages_records;
  std::int64_t const row_points = std::max<std::int64_t>(problem.point_total, 1);
  params.step_queries = static_cast<std::uint32_t>(kWarp / row_points);
  params.step_points = static_cast<std::uint32_t>(kWarp % row_points);
  params.slices = static_cast<std::int32_t>((problem.head_dim + kMaxSlice - 1) / kMaxSlice);
  params.by_quads = multiplier(problem.head_dim / 4);
  params.by_chunks = quotient_multiplier(bins.chunks);
  params.by_windows = quotient_multiplier(bins.windows);
  params.by_heads = quotient_multiplier(problem.head_count);
  params.piece_records = static_cast<std::int32_t>(bins.piece_records);
  params.max_pieces = static_cast<std::int32_t>(bins.max_pieces);
  params.last_tiles_first = tiling.last_tiles_first;
  return params;
}

void take_arrays(ValueParams& params, Problem const& problem, Bins const& bins, Arena& arena) {
  std::int64_t const heads = params.heads;
  std::int64_t const D = problem.head_dim;
  std::int64_t const tiles = params.tiles;
  params.records = arena.take<Record>(count_of(heads * bins.points));
  if (problem.fused()) params.weights = arena.take<float>(count_of(heads * bins.points));
  params.begins = arena.take<std::uint16_t>(count_of(heads * bins.chunks * params.begin_stride));
  params.segments = arena.take<Segment>(count_of(heads * tiles * bins.chunks));
  params.lists = arena.take<TileList>(count_of(heads * tiles));
  params.piece_counts = arena.take<std::uint32_t>(count_of(heads));
  params.piece_tiles = arena.take<std::int32_t>(count_of(heads * bins.max_pieces));
  params.borders = arena.take<float>(count_of(heads * params.border_pixels * D));
  params.piece_sums = arena.take<float>(count_of(heads * bins.max_pieces * kMaxTilePixels * D));
}

void take_arrays(PointParams& params, Problem const& problem, Arena& arena) {
  if (!problem.fused()) return;
  std::int64_t const points = params.queries * problem.head_count * problem.point_total;
  params.weights = arena.take<float>(count_of(points));
  params.raw = arena.take<float>(count_of(3 * points));
}

Runs make_runs(Problem const& problem, Tiling const& tiling, Bins const& bins,
               Device const& device) {
  std::size_t const limit = device.workspace_limit_bytes;
  std::int64_t const blocks = std::max(
      {std::int64_t{1}, bins.chunks * bins.windows,
       (tiling.tiles + bins.max_pieces) * ((problem.head_dim + kMaxSlice - 1) / kMaxSlice)});
  std::int64_t const heads =
      std::min(problem.batch * problem.head_count, std::max<std::int64_t>(kMaxBlocks / blocks, 1));
  std::int64_t const rows = std::max<std::int64_t>(problem.head_count, 1);
  std::int64_t const queries =
      std::min(problem.batch * problem.query_count, std::max<std::int64_t>(kMaxBlocks / rows, 1));
  return {most_that_fit(heads, limit,
                        [&](std::int64_t n) { return value_bytes(problem, tiling, bins, n); }),
          most_that_fit(queries, limit, [&](std::int64_t n) { return point_bytes(problem, n); })};
}

std::byte* take_workspace(Problem const& problem, Tiling const& tiling, Bins const& bins,
                          Runs const& runs, Arena& arena) {
  return arena.take<std::byte>(
      std::max(value_bytes(problem, tiling, bins, runs.heads), point_bytes(problem, runs.queries)));
}

}  // namespace msda::sorted
