#include "kernels/small/plan.h"

#include "core/dtype.h"
#include "kernels/points/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace msda::small {
namespace {

#define MSDA_COSTS "kernels/small/variants.inc"
#include "core/costs.inc"

// The costs that size tiles. They stay when predictions are fitted anew: the order of sums, and so
// their bits, depends on tiles. Those of a whole call are not asked for.
constexpr Costs kTileCosts = {
    .launch_us = 0,
    .scan_ns = 3.45,
    .logit_ns = 0.8,
    .pixel_ns = 3.0,
    .record_ns = 1.4,
    .point_ns = 12.2,
    .f32_factor = 1.44,
    .element_factor = 4.0,
    .wide_factor = 1,
    .bytes_per_us = 1,
};

constexpr std::int64_t kMaxIndex = INT32_MAX;
constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 30;

// Additions to pixels and stores of them that a level has.
double work_of(Problem const& problem, Level const& level) {
  if (!level.has_pixels()) return 0;
  return number(level.height) * number(level.width) +
         4 * number(problem.query_count) * number(level.point_count);
}

// Tokens, heads, rows and the points of a head are counted in 32 bits.
bool sizes_fit(Problem const& problem) {
  if (problem.token_count > kMaxIndex || problem.query_count > kMaxIndex) return false;
  if (problem.point_total > 0 && problem.query_count > kMaxIndex / problem.point_total) {
    return false;
  }
  std::int64_t const queries = problem.batch * problem.query_count;
  if (problem.batch * problem.head_count >= kMaxIndex || queries >= kMaxIndex) return false;
  if (queries > 0 && problem.head_count > kMaxIndex / queries) return false;
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

// A row's K logits as the lanes of its softmax take them: a power of two, or warps of them.
double padded_logits(std::int64_t points) {
  if (points > kWarp) return number(divide_up(points, kWarp) * kWarp);
  return number(std::bit_ceil(static_cast<std::uint64_t>(points)));
}

// The time of a block for a tile: it scans the level's points, with fused input after the softmax
// of their rows, and adds up the records of its pixels.
double tile_ns(Costs const& costs, Problem const& problem, Level const& level,
               TileLevel const& tiles) {
  double const points = number(problem.query_count) * number(level.point_count);
  double const pixels = number(tiles.tile_width) * tiles.tile_height;
  double const records = 4 * points * pixels / (number(level.height) * number(level.width));
  double scan = points * costs.scan_ns;
  if (problem.fused()) {
    scan += number(problem.query_count) * padded_logits(problem.point_total) * costs.logit_ns;
  }
  double const factor = (dtype_bytes(problem.value_dtype) == 4 ? costs.f32_factor : 1.0) *
                        (problem.output_dtype != problem.value_dtype ? costs.element_factor : 1.0);
  double const lanes = number(row_lanes(problem.head_dim)) / 4;
  return scan + factor * lanes * (pixels * costs.pixel_ns + records * costs.record_ns);
}

// Predicts the time of all tiles and points. An SM has kBlocks tiles at a time; blocks of points
// run beside them. Where all run at once the slowest tile counts, where they take turns their sum,
// and both where neither is much the larger.
double blocks_ns(Costs const& costs, Problem const& problem, Tiling const& tiling,
                 std::int32_t sm_count) {
  double const heads = number(problem.batch * problem.head_count);
  double slowest = 0;
  double all = 0;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    if (!level.has_pixels()) continue;
    TileLevel const& tiles = tiling.levels[l];
    double const ns = tile_ns(costs, problem, level, tiles);
    slowest = std::max(slowest, ns);
    all += ns * tiles.tiles_across * number(divide_up(level.height, tiles.tile_height));
  }
  double const lanes = number(row_lanes(problem.head_dim)) / 4;
  double const points = lanes * points_of(problem) * costs.point_ns *
                        (dtype_bytes(problem.value_dtype) == 4 ? costs.f32_factor : 1.0);
  return std::hypot(slowest, (heads * all / kBlocks + points) / std::max(sm_count, 1));
}

double predicted_us(Costs const& costs, Variant const&, Problem const& problem,
                    Device const& device) {
  double const ns =
      blocks_ns(costs, problem, make_tiling(problem, device.sm_count), device.sm_count);
  double const bytes = 2 * forward_bytes(problem);  // each tensor and its gradient
  // A warp has one such row, and no other to work on while that one waits.
  double const waits = row_lanes(problem.head_dim) == kWarp ? costs.wide_factor : 1.0;
  return costs.launch_us + std::max(1e-3 * ns * waits, bytes / costs.bytes_per_us);
}

void workspace(Variant const&, Problem const& problem, Device const&, Arena& arena) {
  static_cast<void>(Workspace(problem, arena));
}

// Cuts levels into tiles of about `wanted` work each.
Tiling cut_levels(Problem const& problem, double wanted) {
  Tiling tiling;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    TileLevel& tiles = tiling.levels[l];
    tiles.first_tile = static_cast<std::int32_t>(tiling.tiles);
    if (!level.has_pixels()) continue;
    std::int64_t const across = divide_up(level.width, kMaxTileWidth);
    std::int64_t const width = divide_up(level.width, across);
    auto const parts =
        static_cast<std::int64_t>(std::lround(work_of(problem, level) / wanted)) / across;
    std::int64_t const rows =
        divide_up(level.height, std::clamp<std::int64_t>(parts, 1, level.height));
    std::int64_t const height = std::min<std::int64_t>(rows, kMaxCells / (width + 1) - 1);
    tiles.tiles_across = static_cast<std::int32_t>(divide_up(level.width, width));
    tiles.tile_width = static_cast<std::int32_t>(width);
    tiles.tile_height = static_cast<std::int32_t>(height);
    std::int64_t const count = tiles.tiles_across * divide_up(level.height, height);
    tiling.tiles += count;
  }
  return tiling;
}

}  // namespace

// Levels are cut into tiles of the work for which the least time is predicted.
Tiling make_tiling(Problem const& problem, std::int32_t sm_count) {
  constexpr double kMinTileWork = 1000, kMaxTileWork = 16000, kGrowth = 1.19;
  Tiling best;
  double best_ns = std::numeric_limits<double>::infinity();
  for (double work = kMinTileWork; work < kMaxTileWork; work *= kGrowth) {
    Tiling const tiling = cut_levels(problem, work);
    double const ns = blocks_ns(kTileCosts, problem, tiling, sm_count);
    if (ns >= best_ns) continue;
    best = tiling;
    best_ns = ns;
  }
  return best;
}

std::int32_t rows_of_block(Problem const& problem, std::int32_t sm_count) {
  std::int32_t const slots = kWarp / row_lanes(problem.head_dim);
  std::int64_t const warps = divide_up(divide_up(row_count(problem), slots), std::max(sm_count, 1));
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(warps, 1, kWarps)) * slots;
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

Workspace::Workspace(Problem const& problem, Arena& arena) {
  auto const points = static_cast<std::size_t>(row_count(problem) * problem.point_total);
  if (largest_points(problem) > kRoundPoints && problem.grad_value_dtype != MSDA_DTYPE_F32) {
    sums = arena.take<float>(static_cast<std::size_t>(value_count(problem)));
  }
  if (!problem.fused()) return;
  by_pixel = arena.take<float>(2 * points);
  if (!stages_in_shared(problem)) staged = arena.take<float>(2 * points);
}

const FamilyModel kModel = {
    .name = "small",
    .variants = kTable.variants(),
    .reject = reject,
    .predict = predict<Costs, predicted_us>,
    .constants = kConstants,
    .workspace = workspace,
};

}  // namespace msda::small
