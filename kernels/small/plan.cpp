#include "kernels/small/plan.h"

#include "kernels/points/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace msda::small {
namespace {

#define MSDA_COSTS "kernels/small/variants.inc"
#include "core/costs.inc"

// Additions to pixels and stores of them that a level has.
double work_of(Problem const& problem, Level const& level) {
  if (!level.has_pixels()) return 0;
  return number(level.height) * number(level.width) +
         4 * number(problem.query_count) * number(level.point_count);
}

// Rows are counted in 32 bits.
bool sizes_fit(Problem const& problem) {
  if (!points::counts_fit(problem) || rows_of(problem) > INT32_MAX) return false;
  double tiles = 0;  // at most: a row of pixels each
  for (Level const& level : problem.levels) {
    tiles += number(level.height) * number(divide_up(level.width, kMaxTileWidth));
  }
  return number(problem.batch * problem.head_count) * tiles < number(kMaxBlocks);
}

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Reason const reason = points::reject(variant, problem, device, false);
  if (reason != Reason::kNone) return reason;
  if (!levels_are_near(problem)) return Reason::kLevels;
  if (!sizes_fit(problem)) return Reason::kTooLarge;
  return device.shared_bytes_per_block < kMaxSharedBytes ? Reason::kSharedMemory : Reason::kNone;
}

// How many times the lanes of a row of up to 32 channels a row has.
double lane_factor(Problem const& problem) { return number(row_lanes(problem.head_dim)) / 4; }

// The logits of the rows of a tile whose softmax its block finds. The lanes of a softmax take a
// power of two of them, or warps.
double logits_of(Problem const& problem) {
  if (!problem.fused()) return 0;
  std::int64_t const K = problem.point_total;
  std::int64_t const padded =
      K > kWarp ? divide_up(K, kWarp) * kWarp : std::int64_t{std::bit_ceil(u32(K))};
  return number(problem.query_count) * number(padded);
}

// Times of blocks: where all run at once the slowest counts, where they take turns an SM's part of
// their sum. A norm of the two has both.
struct BlockTimes {
  double slowest_ns, sum_ns;
};

// The blocks of tiles, `at_once` of which an SM has, and beside them those of points.
template <class TileNs>
BlockTimes block_times(Problem const& problem, Tiling const& tiling, std::int32_t sm_count,
                       double at_once, double points_ns, TileNs tile_ns) {
  double slowest = 0, all = 0;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    if (!level.has_pixels()) continue;
    TileLevel const& tiles = tiling.levels[l];
    double const ns = tile_ns(level, number(tiles.tile_width) * tiles.tile_height);
    slowest = std::max(slowest, ns);
    all += ns * tiles.tiles_across * number(divide_up(level.height, tiles.tile_height));
  }
  double const heads = number(problem.batch * problem.head_count);
  return {slowest, (heads * all / at_once + points_ns) / std::max(sm_count, 1)};
}

// The time by which tiles are sized. Its costs are its own, so that tiles stay as they were
// measured (docs/experiments/small.csv) when predictions are fitted anew.
double sizing_ns(Problem const& problem, Tiling const& tiling, std::int32_t sm_count) {
  constexpr double kScanNs = 3.45, kLogitNs = 0.8, kPixelNs = 3.0, kRecordNs = 1.4, kPointNs = 12.2;
  double const factor = lane_factor(problem) * (problem.value_dtype == MSDA_DTYPE_F32 ? 1.44 : 1.0);
  double const points_ns = factor * points_of(problem) * kPointNs;
  BlockTimes const blocks = block_times(
      problem, tiling, sm_count, kBlocks, points_ns, [&](Level const& level, double pixels) {
        double const points = number(problem.query_count) * number(level.point_count);
        double const records = 4 * points * pixels / (number(level.height) * number(level.width));
        return points * kScanNs + logits_of(problem) * kLogitNs +
               factor * element_factor(problem, 4) * (pixels * kPixelNs + records * kRecordNs);
      });
  return std::hypot(blocks.slowest_ns, blocks.sum_ns);
}

// The fraction of pixels or cells that have more than `limit` of points spread evenly, about.
double fraction_above(double limit, double mean) {
  return 0.5 * std::erfc((limit + 0.5 - mean) / std::sqrt(2 * std::max(mean, 0.05)));
}

// The time of a block for a tile: it scans the level's points, orders records, 32 cells a warp one
// after the other where they have many, and waits for the rows of grad_output that its pixels add
// up. A slot has a pixel of few, a warp one of many, and all have each crowded one.
double tile_ns(Costs const& costs, Problem const& problem, Level const& level, double pixels) {
  double const lanes = number(row_lanes(problem.head_dim));
  double const slots = kThreads / lanes, warp_slots = kWarp / lanes;
  double const points = number(problem.query_count) * number(level.point_count);
  double const rounds = std::max(std::ceil(points / kRoundPoints), 1.0);
  double const records = 4 * points / (rounds * number(level.height) * number(level.width));
  double const many = fraction_above(kRecordsOfSlot, records);
  double const crowded = fraction_above(2 * kRecordsOfSlot * warp_slots, records);
  double const rows_ns = records * costs.row_ns;
  double const add =
      std::max(pixels / slots, 1.0) * (costs.pixel_ns + (1 - many) * rows_ns) +
      std::max(pixels / kWarps, 1.0) * (many - crowded) * (costs.pixel_ns + rows_ns / warp_slots) +
      pixels * crowded * (lanes * costs.crowded_lane_ns + rows_ns / slots);
  double const words = std::min(number(largest_points(problem)), number(kRoundPoints)) / kWarp;
  double const order = fraction_above(kFewRecords, records / 4) * words * costs.word_ns *
                       std::max(std::min(pixels, number(kWarp)), pixels / kWarps);
  return points * costs.scan_ns + logits_of(problem) * costs.logit_ns +
         rounds * (costs.tile_ns + order + element_factor(problem, costs.element_factor) * add);
}

// Registers leave an SM one block of float32, or two of other types, which do half as much again.
double predicted_us(Costs const& costs, Variant const&, Problem const& problem,
                    Device const& device) {
  double const at_once = problem.value_dtype == MSDA_DTYPE_F32 ? 1.0 : 1.5;
  double const row_points = number(divide_up(problem.point_total, kPointsAtOnce) * kPointsAtOnce);
  double const rows_ns = costs.rows_ns + row_points * costs.point_ns;  // of a block
  BlockTimes const blocks = block_times(
      problem, make_tiling(problem, device.sm_count), device.sm_count, at_once,
      number(point_blocks(problem, device.sm_count)) * rows_ns / at_once,
      [&](Level const& level, double pixels) { return tile_ns(costs, problem, level, pixels); });
  double const slowest_ns = std::max(blocks.slowest_ns, rows_ns);
  double const ns = std::pow(std::pow(slowest_ns, 3) + std::pow(blocks.sum_ns, 3), 1.0 / 3);
  return costs.launch_us + 1e-3 * ns + 2 * forward_bytes(problem) / costs.bytes_per_us;
}

void workspace(Variant const&, Problem const& problem, Device const&, Arena& arena) {
  SmallParams params{};
  take_arrays(params, problem, arena);
}

// Cuts levels into tiles of about `wanted` work each.
Tiling cut_levels(Problem const& problem, double wanted) {
  Tiling tiling;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    TileLevel& tiles = tiling.levels[l];
    tiles.first_tile = i32(tiling.tiles);
    if (!level.has_pixels()) continue;
    std::int64_t const across = divide_up(level.width, kMaxTileWidth);
    std::int64_t const width = divide_up(level.width, across);
    auto const parts =
        static_cast<std::int64_t>(std::lround(work_of(problem, level) / wanted)) / across;
    std::int64_t const rows =
        divide_up(level.height, std::clamp<std::int64_t>(parts, 1, level.height));
    std::int64_t const height = std::min<std::int64_t>(rows, kMaxCells / (width + 1) - 1);
    tiles.tiles_across = i32(divide_up(level.width, width));
    tiles.tile_width = i32(width);
    tiles.tile_height = i32(height);
    std::int64_t const count = tiles.tiles_across * divide_up(level.height, height);
    tiling.tiles += count;
  }
  return tiling;
}

}  // namespace

// Levels are cut into tiles of the work for which the least time is predicted. Blocks that do not
// all run at once take longer than their work: while the last ones run, SMs are idle.
Tiling make_tiling(Problem const& problem, std::int32_t sm_count) {
  constexpr double kMinTileWork = 700, kMaxTileWork = 22000, kGrowth = 1.1, kInTurns = 1.3;
  std::int64_t const heads = problem.batch * problem.head_count;
  std::int64_t const at_once = std::int64_t{kBlocks} * sm_count - point_blocks(problem, sm_count);
  Tiling best;
  double best_ns = std::numeric_limits<double>::infinity();
  for (double work = kMinTileWork; work < kMaxTileWork; work *= kGrowth) {
    Tiling const tiling = cut_levels(problem, work);
    double const factor = heads * tiling.tiles > at_once ? kInTurns : 1.0;
    double const ns = factor * sizing_ns(problem, tiling, sm_count);
    if (ns >= best_ns) continue;
    best = tiling;
    best_ns = ns;
  }
  return best;
}

std::int32_t rows_of_block(Problem const& problem, std::int32_t sm_count) {
  std::int32_t const slots = kWarp / row_lanes(problem.head_dim);
  std::int64_t const warps = divide_up(divide_up(row_count(problem), slots), std::max(sm_count, 1));
  return i32(std::clamp<std::int64_t>(warps, 1, kWarps)) * slots;
}

std::int64_t point_blocks(Problem const& problem, std::int32_t sm_count) {
  return divide_up(row_count(problem), rows_of_block(problem, sm_count));
}

std::int64_t largest_points(Problem const& problem) {
  std::int64_t most = 0;
  for (Level const& level : problem.levels) {
    if (level.has_pixels()) most = std::max(most, problem.query_count * level.point_count);
  }
  return most;
}

void take_arrays(SmallParams& params, Problem const& problem, Arena& arena) {
  std::size_t const points = count_of(row_count(problem) * problem.point_total);
  if (largest_points(problem) > kRoundPoints && problem.grad_value_dtype != MSDA_DTYPE_F32) {
    params.sums = arena.take<float>(count_of(value_count(problem)));
  }
  if (!problem.fused()) return;
  params.points.by_pixel = arena.take<float>(2 * points);
  if (!stages_in_shared(problem)) params.points.staged = arena.take<float>(2 * points);
}

extern const FamilyModel kModel = {
    .name = "small",
    .variants = kTable.variants(),
    .reject = reject,
    .predict = predict<Costs, predicted_us>,
    .constants = kConstants,
    .workspace = workspace,
};

}  // namespace msda::small
