#include "kernels/sorted/plan.h"

#include "kernels/points/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iterator>

namespace msda::sorted {
namespace {

#define MSDA_COSTS "kernels/sorted/variants.inc"
#include "core/costs.inc"

// ---- limits

constexpr std::int64_t kMaxTiles = std::int64_t{1} << 26;  // of a head

bool sizes_fit(Problem const& problem) {
  double cells = 0;
  for (Level const& level : problem.levels) {
    cells += number(level.width + 1) * number(level.height + 1);
  }
  return cells < number(kMaxTiles) && points::counts_fit(problem);
}

// ---- tiles and bins

// ceil(2^32 / divisor), of 2 or more: the upper half of a small number's product is its quotient.
std::uint32_t multiplier(std::int64_t divisor) {
  return u32(divide_up(std::int64_t{1} << 32, divisor));
}

struct TileSize {
  std::int32_t width;
  std::int32_t height;
};

// Largest first. Cells are a power of two, as the lists of each are, so that together they fill the
// slots of a block.
constexpr TileSize kTileSizes[] = {{8, 8}, {8, 4}, {4, 4}, {4, 2}, {2, 2}};
static_assert(kTileSizes[0].width * kTileSizes[0].height == kMaxCells &&
                  (kTileSizes[0].width + 1) * (kTileSizes[0].height + 1) == kMaxTilePixels,
              "the largest tile is what kernels have room for");

// The records that a tile has at most where points are spread evenly: several rounds, with room for
// what chance adds to each, so that the work once a tile weighs less; and fewer where tiles would
// be too few for a large GPU, whatever GPU it is, since bits are the same on all.
double wanted_records(Problem const& problem) {
  constexpr double kMinRounds = 1.5;
  constexpr double kMaxRounds = 3;
  constexpr double kRoundsOfProblem = 2000;  // of each of a tile's
  constexpr double kFilled = 0.85;
  double const records = number(problem.batch * problem.head_count) *
                         number(problem.query_count * problem.point_total);
  double const rounds = records / (kRoundsOfProblem * kRound);
  return std::clamp(rounds, kMinRounds, kMaxRounds) * kFilled * kRound;
}

TileSize tile_size(Level const& level, std::int64_t query_count, double wanted) {
  double const cells = number(level.width + 1) * number(level.height + 1);
  double const points = number(level.point_count) * number(query_count);
  for (TileSize const size : kTileSizes) {
    if (size.width * size.height * points <= wanted * cells) return size;
  }
  return kTileSizes[std::size(kTileSizes) - 1];
}

double records_of_tile(Level const& level, SumLevel const& tiles) {
  return number(level.point_count) / number(std::max(tiles.tiles, 1));
}

SumLevel sum_level(std::int32_t first_tile, std::int64_t tiles, std::int64_t points) {
  bool const is_sparse = points <= kSparseRecords * tiles;
  return {first_tile, i32(tiles), i32(divide_up(tiles, is_sparse ? kSumWarps : 1)), is_sparse};
}

// The parts of a level's tiles, at most.
std::int64_t max_parts(std::int64_t points, SumLevel const& level, std::int64_t part_records) {
  if (level.is_sparse) {
    return std::min<std::int64_t>(level.tiles, points / (kFewOfWarp + 1)) + points / part_records;
  }
  return points <= part_records ? 0 : 2 * points / part_records;
}

// ---- passes

std::size_t value_bytes(Problem const& problem, Planned const& planned, std::int64_t heads) {
  ValueParams params = value_params(problem, planned.tiling, planned.bins);
  params.heads = i32(heads);
  Arena arena;
  take_arrays(params, problem, planned.bins, arena);
  return arena.used_bytes();
}

std::size_t point_bytes(Problem const& problem, std::int64_t queries) {
  PointParams params{};
  params.queries = queries;
  Arena arena;
  take_arrays(params, problem, arena);
  return arena.used_bytes();
}

// The multiplier that quotient() in tiles.cuh takes.
std::uint32_t quotient_multiplier(std::int64_t divisor) {
  return u32(UINT32_MAX / std::max<std::int64_t>(divisor, 1));
}

// The bits that tell the tiles of a level apart, in a range of them, too.
std::int32_t level_tile_bits(Tiling const& tiling) {
  std::int32_t most = 1;
  for (SumLevel const& level : tiling.sum_levels) most = std::max(most, level.tiles);
  return std::min<std::int32_t>(std::bit_width(u32(most - 1)), kTileBits);
}

// ---- reject and cost

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Reason const reason = points::reject(variant, problem, device, false);
  if (reason != Reason::kNone) return reason;
  if (!sizes_fit(problem)) return Reason::kTooLarge;
  return device.shared_bytes_per_block < kMinSharedBytes ? Reason::kSharedMemory : Reason::kNone;
}

// Blocks that all run at once take as long as the slowest one, those that take turns the sum.
double launch_ns(double slowest, double all, Device const& device) {
  return std::hypot(slowest, all / std::max(device.sm_count, 1));
}

// A block, or a warp on a sparse level, sums a tile, or a part of a long one.
double sum_ns(Costs const& costs, Problem const& problem, Tiling const& tiling, double lanes,
              Device const& device) {
  double const slices = number(divide_up(problem.head_dim, kMaxSlice));
  int const blocks = tiling.sum_blocks < tiling.tiles ? kSparseBlocks : kSumBlocks;  // of an SM
  double slowest = 0, all = 0;
  for (std::size_t l = 0; l < tiling.sum_levels.size(); ++l) {
    SumLevel const& level = tiling.sum_levels[l];
    double const records = number(problem.query_count) * records_of_tile(problem.levels[l], level);
    double const parts = std::max(records / (kPartRecords * slices), 1.0);
    double const lane_records = records / parts * std::min(lanes, number(kMaxSliceLanes));
    double const ns = level.is_sparse ? costs.sparse_tile_ns + records * costs.sparse_record_ns
                                      : costs.tile_ns + lane_records * costs.lane_record_ns;
    slowest = std::max(slowest, ns);
    all += ns * parts * level.tiles / (level.is_sparse ? kSparseBlocks * kSumWarps : blocks);
  }
  return launch_ns(slowest, number(problem.batch * problem.head_count) * slices * all, device);
}

double predicted_us(Costs const& costs, Variant const&, Problem const& problem,
                    Device const& device) {
  Tiling const tiling = make_tiling(problem);
  double const lanes = std::max(1.0, number(problem.head_dim) / kChannelsOfLane);
  double const of_point = (costs.point_ns + lanes * costs.point_lane_ns) *
                          (problem.fused() ? costs.fused_factor : 1.0) *
                          f32_factor(problem, costs.f32_factor);
  double ns = sum_ns(costs, problem, tiling, lanes, device) +
              launch_ns(number(problem.point_total) * costs.row_point_ns,
                        points_of(problem) * of_point, device);
  ns *= element_factor(problem, costs.element_factor);
  if (problem.has_points() && kWarp % problem.point_total != 0) {  // kAnyPoints
    Bins const bins = make_bins(problem, tiling, device);
    std::int64_t const blocks = problem.batch * problem.head_count * bins.chunks * bins.tile_ranges;
    ns += launch_ns(costs.any_bin_ns, number(blocks) / kBinBlocks * costs.any_bin_ns, device);
  }
  return (problem.fused() ? 6 : 5) * costs.launch_us + 1e-3 * ns +
         2 * forward_bytes(problem) / costs.bytes_per_us;  // each tensor and its gradient
}

void workspace(Variant const&, Problem const& problem, Device const& device, Arena& arena) {
  arena.take<std::byte>(workspace_bytes(problem, Planned(problem, device)));
}

}  // namespace

// ---- tiles and bins

Tiling make_tiling(Problem const& problem) {
  Tiling tiling;
  double const wanted = wanted_records(problem);
  for (Level const& level : problem.levels) {
    TileSize const size = tile_size(level, problem.query_count, wanted);
    TileLevel tile_level{};
    tile_level.width = i32(level.width);
    tile_level.height = i32(level.height);
    tile_level.tile_width = size.width;
    tile_level.tile_height = size.height;
    tile_level.by_width = multiplier(size.width);
    tile_level.by_height = multiplier(size.height);
    tile_level.by_pixels = multiplier(size.width + 1);
    tile_level.first_tile = i32(tiling.tiles);
    tile_level.border_pixels = 2 * (size.width + size.height);
    tile_level.first_border = tiling.border_pixels;
    tile_level.origin = level.origin;
    tile_level.row_tokens = level.row_tokens;
    if (level.width > 0 && level.height > 0) {
      std::int64_t const across = divide_up(level.width + 1, size.width);
      std::int64_t const tiles = across * divide_up(level.height + 1, size.height);
      tile_level.tiles_across = i32(across);
      tiling.tiles += tiles;
      tiling.border_pixels += tiles * tile_level.border_pixels;
    }
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

Bins make_bins(Problem const& problem, Tiling const& tiling, Device const& device) {
  Bins bins{};
  bins.points = problem.query_count * problem.point_total;
  // Smaller chunks where there are too few points for all SMs.
  std::int64_t const of_thread = problem.batch * problem.head_count * bins.points /
                                 (kBinThreads * kBinBlocks * device.sm_count);
  bins.chunk_points = kBinThreads * std::clamp<std::int64_t>(of_thread, 1, kPointsOfThread);
  bins.chunks = divide_up(bins.points, bins.chunk_points);
  bins.tile_ranges = divide_up(tiling.tiles, kMaxRangeTiles);
  std::int64_t const of_range =
      divide_up(tiling.tiles, std::max<std::int64_t>(bins.tile_ranges, 1));
  bins.range_tiles = divide_up(of_range, kTilesOfThread) * kTilesOfThread;
  bins.stages_records = bins.chunk_points > kBinThreads;
  bins.range_counters = bins.range_tiles + kTilesOfThread;
  bins.shared_bytes = (bins.stages_records ? kStagedBytes : kStagedRowBytes) + kWarpSumBytes +
                      bins.range_counters * kTileBytes;
  bins.part_records = kPartRecords * divide_up(problem.head_dim, kMaxSlice);
  for (std::size_t l = 0; l < tiling.levels.size(); ++l) {
    bins.max_parts += max_parts(problem.levels[l].point_count * problem.query_count,
                                tiling.sum_levels[l], bins.part_records);
  }
  return bins;
}

// ---- passes and workspace

ValueParams value_params(Problem const& problem, Tiling const& tiling, Bins const& bins) {
  ValueParams params{};
  params.border_pixels = tiling.border_pixels;
  params.points = i32(bins.points);
  params.level_count = i32(tiling.levels.size());
  params.tiles = i32(tiling.tiles);
  params.sum_blocks = i32(tiling.sum_blocks);
  params.chunks = i32(bins.chunks);
  params.points_of_thread = i32(bins.chunk_points / kBinThreads);
  params.tile_ranges = i32(bins.tile_ranges);
  params.range_tiles = i32(bins.range_tiles);
  params.level_tile_bits = level_tile_bits(tiling);
  params.range_counters = i32(bins.range_counters);
  // A thread's begins are whole words, and there is one behind those of all tiles.
  params.begin_stride = i32((tiling.tiles / kTilesOfThread + 1) * kTilesOfThread);
  params.stages_records = bins.stages_records;
  std::int64_t const row_points = std::max<std::int64_t>(problem.point_total, 1);
  params.query_stride = u32(kWarp / row_points);
  params.point_stride = u32(kWarp % row_points);
  params.slices = i32(divide_up(problem.head_dim, kMaxSlice));
  params.by_quads = multiplier(problem.head_dim / 4);
  params.by_chunks = quotient_multiplier(bins.chunks);
  params.by_tile_ranges = quotient_multiplier(bins.tile_ranges);
  params.by_heads = quotient_multiplier(problem.head_count);
  params.part_records = i32(bins.part_records);
  params.max_parts = i32(bins.max_parts);
  params.last_tiles_first = tiling.last_tiles_first;
  return params;
}

void take_arrays(ValueParams& params, Problem const& problem, Bins const& bins, Arena& arena) {
  std::int64_t const heads = params.heads;
  std::int64_t const D = problem.head_dim;
  std::int64_t const tiles = params.tiles;
  params.records = arena.take<TileRecord>(count_of(heads * bins.points));
  params.begins = arena.take<std::uint16_t>(count_of(heads * bins.chunks * params.begin_stride));
  params.segments = arena.take<Segment>(count_of(heads * tiles * bins.chunks));
  params.lists = arena.take<TileList>(count_of(heads * tiles));
  params.part_counts = arena.take<std::uint32_t>(count_of(heads));
  params.part_tiles = arena.take<std::int32_t>(count_of(heads * bins.max_parts));
  params.borders = arena.take<float>(count_of(heads * params.border_pixels * D));
  params.part_sums = arena.take<float>(count_of(heads * bins.max_parts * kMaxTilePixels * D));
}

void take_arrays(PointParams& params, Problem const& problem, Arena& arena) {
  if (!problem.fused()) return;
  std::int64_t const points = params.queries * problem.head_count * problem.point_total;
  params.by_pixel = arena.take<float>(count_of(2 * points));
  params.staged = arena.take<float>(count_of(2 * points));
}

Planned::Planned(Problem const& problem, Device const& device)
    : tiling(make_tiling(problem)), bins(make_bins(problem, tiling, device)), passes() {
  std::size_t const limit = device.workspace_limit_bytes;
  std::int64_t const blocks =
      std::max({std::int64_t{1}, bins.chunks * bins.tile_ranges,
                (tiling.tiles + bins.max_parts) * (divide_up(problem.head_dim, kMaxSlice))});
  std::int64_t const heads =
      std::min(problem.batch * problem.head_count, std::max<std::int64_t>(kMaxBlocks / blocks, 1));
  std::int64_t const rows = std::max<std::int64_t>(problem.head_count, 1);
  std::int64_t const queries =
      std::min(problem.batch * problem.query_count, std::max<std::int64_t>(kMaxBlocks / rows, 1));
  passes = {
      most_that_fit(heads, limit, [&](std::int64_t n) { return value_bytes(problem, *this, n); }),
      most_that_fit(queries, limit, [&](std::int64_t n) { return point_bytes(problem, n); })};
}

std::size_t workspace_bytes(Problem const& problem, Planned const& planned) {
  return std::max(value_bytes(problem, planned, planned.passes.heads),
                  point_bytes(problem, planned.passes.queries));
}

// ---- blocks of points

std::int64_t iterations_of_block(std::int64_t blocks, std::int64_t most, std::int32_t sm_count) {
  return std::clamp<std::int64_t>(blocks / (kBlocksOfSm * sm_count), 1, most);
}

PairedLaunch paired_launch(Params const& p, std::int64_t rows, std::int64_t points,
                           std::int32_t sm_count) {
  std::int64_t const heads = heads_together(p.head_count);
  std::int64_t const queries = rows / heads;  // of an iteration
  std::int64_t const groups = divide_up(p.point_total, points);
  std::int64_t const of_range = p.batch * (p.head_count / heads) * groups;  // blocks
  std::int64_t const iterations = divide_up(p.query_count, queries);        // of all ranges
  std::int64_t const of_block =
      iterations_of_block(of_range * iterations, kMaxPairedIterations, sm_count);
  std::int64_t ranges = divide_up(iterations, of_block);
  // Whole waves of blocks let the SMs end together.
  std::int64_t const wave = points::kPointBlocks * std::int64_t{sm_count};
  if (of_block > 1) ranges = std::max<std::int64_t>(of_range * ranges / wave * wave / of_range, 1);
  PairedParams params{};
  params.groups = u32(groups);
  params.query_ranges = u32(ranges);
  params.iterations = u32(iterations / ranges);
  params.longer_ranges = u32(iterations % ranges);
  params.coord_stride = queries * p.coord_strides.row * dtype_bytes(p.coord_dtype);
  params.weight_stride = queries * p.weight_strides.row * dtype_bytes(p.weight_dtype);
  params.reference_stride =
      queries * p.level_count * p.reference_dim * dtype_bytes(p.reference_dtype);
  params.grad_stride = queries * p.output_strides.row * dtype_bytes(p.output_dtype);
  params.grad_coord_stride = u32(queries * p.grad_coord_strides.row);
  params.grad_weight_stride = u32(queries * p.grad_weight_strides.row);
  params.index_stride = u32(queries * p.head_count * p.point_total);
  return {params, of_range * ranges};
}

extern const FamilyModel kModel = {
    .name = "sorted",
    .variants = kTable.variants(),
    .reject = reject,
    .predict = predict<Costs, predicted_us>,
    .constants = kConstants,
    .workspace = workspace,
};

}  // namespace msda::sorted
