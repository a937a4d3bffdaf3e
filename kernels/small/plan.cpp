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

// The logits of the rows of a tile whose softmax its block finds. The lanes of a softmax take a
// power of two of them, or warps.
double logits_of(Problem const& problem) {
  if (!problem.fused()) return 0;
  std::int64_t const K = problem.point_total;
  std::int64_t const padded =
      K > kWarp ? divide_up(K, kWarp) * kWarp : std::int64_t{std::bit_ceil(u32(K))};
  return number(problem.query_count) * number(padded);
}

// The fraction of pixels or cells that have more than `limit` of points spread evenly, about.
double fraction_above(double limit, double mean) {
  return 0.5 * std::erfc((limit + 0.5 - mean) / std::sqrt(2 * std::max(mean, 0.05)));
}

// The time of a block for a tile: it scans the level's points, orders records, a cell of many a
// warp, and waits for the rows of grad_output that its pixels add up. A slot has a pixel of few, a
// warp one of many, and all have each crowded one.
double tile_ns(Costs const& costs, Problem const& problem, Level const& level, double pixels) {
  double const lanes = number(row_lanes(problem));
  double const slots = kThreads / lanes, warp_slots = kWarp / lanes;
  double const points = number(problem.query_count) * number(level.point_count);
  double const rounds =
      takes_two_rounds(problem, level) ? 1 : std::max(std::ceil(points / kRoundPoints), 1.0);
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
                       std::max(pixels / kWarps, 1.0);
  return points * costs.scan_ns + logits_of(problem) * costs.logit_ns +
         rounds * (costs.tile_ns + order + element_factor(problem, costs.element_factor) * add);
}

// The time of all blocks, of which an SM has kBlocks at once, one of float32: as long as the
// slowest takes or all on average, and half of one more where they take turns, since SMs are idle
// while the last ones run.
double blocks_ns(Costs const& costs, Problem const& problem, Tiling const& tiling,
                 std::int32_t sm_count) {
  PointBlocks const points = point_blocks(problem, sm_count);
  double slowest = costs.rows_ns + points.part_points * costs.point_ns;
  double blocks = number(points.blocks), sum = blocks * slowest;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    if (!level.has_pixels()) continue;
    TileLevel const& tiles = tiling.levels[l];
    double const ns = tile_ns(costs, problem, level, number(tiles.tile_width) * tiles.tile_height);
    double const count = number(problem.batch * problem.head_count * tiles.tiles_across *
                                divide_up(level.height, tiles.tile_height));
    slowest = std::max(slowest, ns);
    sum += count * ns;
    blocks += count;
  }
  bool const is_f32 = problem.value_dtype == MSDA_DTYPE_F32;
  double const at_once = number(std::max(sm_count, 1)) * (is_f32 ? 1 : kBlocks);
  double const average = sum / at_once + (blocks > at_once ? sum / blocks / 2 : 0);
  double const ns = std::pow(std::pow(slowest, 4) + std::pow(average, 4), 0.25);
  return ns * f32_factor(problem, costs.f32_factor);
}

double predicted_us(Costs const& costs, Variant const&, Problem const& problem,
                    Device const& device) {
  Tiling const tiling = make_tiling(problem, device.sm_count);
  return costs.launch_us + 1e-3 * blocks_ns(costs, problem, tiling, device.sm_count) +
         2 * forward_bytes(problem) / costs.bytes_per_us;
}

void workspace(Variant const&, Problem const& problem, Device const&, Arena& arena) {
  SmallParams params{};
  take_arrays(params, problem, arena);
}

// The costs by which tiles are sized. They are fitted apart (docs/experiments/small.csv), so that
// tiles stay as they were measured when predictions are fitted anew.
constexpr Costs kSizing{.launch_us = 0,
                        .tile_ns = 5500,
                        .scan_ns = 1.93,
                        .logit_ns = 0.42,
                        .word_ns = 15.2,
                        .row_ns = 248,
                        .pixel_ns = 340,
                        .crowded_lane_ns = 90,
                        .rows_ns = 4160,
                        .point_ns = 770,
                        .element_factor = 4};

// A level as it is cut: strips of its whole height, and how long a block takes for a tile of no
// pixel and for a strip.
struct Strip {
  std::int64_t width;
  double none_ns, all_ns;
};
using Strips = std::array<Strip, kInlineLevels>;

Strips strips_of(Problem const& problem) {
  Strips strips{};
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    if (!level.has_pixels()) continue;
    std::int64_t const width = divide_up(level.width, divide_up(level.width, kMaxTileWidth));
    strips[l] = {width, tile_ns(kSizing, problem, level, 0),
                 tile_ns(kSizing, problem, level, number(width) * number(level.height))};
  }
  return strips;
}

// That many, rounded down, but one at least and `most` at most.
std::int64_t at_least_one(double wanted, std::int64_t most) {
  return static_cast<std::int64_t>(std::clamp(wanted, 1.0, number(most)));
}

// The rows of a strip that have so few records of points spread evenly that a tile has room for
// those of two rounds.
std::int64_t rows_of_records(Problem const& problem, Level const& level, std::int64_t strip_width) {
  double const records = 0.875 * (problem.fused() ? kMaxFusedRecords : kRoundPoints);
  double const points = number(problem.query_count * level.point_count);
  double const cells = number(level.height) * number(level.width) * records / points;
  return at_least_one(cells / number(strip_width + 1) - 1, level.height);
}

// Cuts strips into tiles that take a block about so long each: into rows of pixels, and these into
// parts where one row takes longer.
Tiling cut_levels(Problem const& problem, Strips const& strips, double wanted_ns) {
  std::int64_t const cells = max_cells(row_lanes(problem));
  Tiling tiling;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    TileLevel& tiles = tiling.levels[l];
    tiles.first_tile = i32(tiling.tiles);
    if (!level.has_pixels()) continue;
    auto const [strip_width, none_ns, all_ns] = strips[l];
    double const wanted =
        number(level.height) * (wanted_ns - none_ns) / std::max(all_ns - none_ns, 1.0);
    tiles.rounds = takes_two_rounds(problem, level) ? 2 : 1;
    std::int64_t const with_room =
        tiles.rounds == 2 ? rows_of_records(problem, level, strip_width) : level.height;
    std::int64_t const most = std::min(cells / (strip_width + 1) - 1, with_room);
    std::int64_t const rows = at_least_one(wanted, most);
    std::int64_t const columns = at_least_one(wanted * number(strip_width), strip_width);
    // All tiles have as many rows and columns, where the last ones may have fewer.
    std::int64_t const height = divide_up(level.height, divide_up(level.height, rows));
    std::int64_t const width = divide_up(level.width, divide_up(level.width, columns));
    tiles.tiles_across = i32(divide_up(level.width, width));
    tiles.tile_width = i32(width);
    tiles.tile_height = i32(height);
    tiling.tiles += tiles.tiles_across * divide_up(level.height, height);
  }
  return tiling;
}

}  // namespace

// Levels are cut into tiles of the time each for which all blocks are predicted to take the least.
Tiling make_tiling(Problem const& problem, std::int32_t sm_count) {
  constexpr double kMinNs = 5000, kGrowth = 1.08;
  Strips const strips = strips_of(problem);
  double whole_ns = kMinNs;  // of the strip that takes longest
  for (Strip const& strip : strips) whole_ns = std::max(whole_ns, strip.all_ns);
  Tiling best;
  double best_ns = std::numeric_limits<double>::infinity();
  for (double wanted_ns = kMinNs; wanted_ns < kGrowth * whole_ns; wanted_ns *= kGrowth) {
    Tiling const tiling = cut_levels(problem, strips, wanted_ns);
    double const ns = blocks_ns(kSizing, problem, tiling, sm_count);
    bool const fits =
        number(problem.batch * problem.head_count * tiling.tiles) < number(kMaxBlocks);
    if (!fits || ns >= best_ns) continue;
    best = tiling;
    best_ns = ns;
  }
  return best;
}

// Few rows have parts, since a slot takes its points one after the other. A block has as many whole
// warps as leave every SM one.
PointBlocks point_blocks(Problem const& problem, std::int32_t sm_count) {
  std::int64_t const sms = std::max(sm_count, 1);
  std::int64_t const slots = kWarp / point_lanes(row_lanes(problem));  // of a warp
  std::int64_t const groups = divide_up(problem.point_total, kPointsAtOnce);
  std::int64_t const most =
      problem.fused() && !stages_in_shared(problem) ? 1 : std::min(groups, slots);
  std::int32_t bits = 0;
  auto const warps = [&] { return divide_up(row_count(problem) << bits, slots); };
  while (2 << bits <= most && 2 * warps() <= kPartWarps * sms) ++bits;
  std::int64_t const of_block = std::clamp<std::int64_t>(divide_up(warps(), sms), 1, kWarps);
  return {.part_bits = bits,
          .part_points = i32(divide_up(groups, std::int64_t{1} << bits) * kPointsAtOnce),
          .slots = i32(of_block * slots),
          .blocks = divide_up(warps(), of_block)};
}

std::int64_t largest_points(Problem const& problem) {
  std::int64_t most = 0;
  for (Level const& level : problem.levels) {
    if (level.has_pixels()) most = std::max(most, problem.query_count * level.point_count);
  }
  return most;
}

Rounds rounds_of(Problem const& problem) {
  if (has_one_round(problem)) return Rounds::one;
  bool const takes_two = std::ranges::any_of(
      problem.levels, [&](Level const& level) { return takes_two_rounds(problem, level); });
  if (!takes_two) return Rounds::any;
  return problem.fused() ? Rounds::two_fused : Rounds::two_sampled;
}

void take_arrays(SmallParams& params, Problem const& problem, Arena& arena) {
  std::size_t const points = count_of(row_count(problem) * problem.point_total);
  if (!has_one_round(problem) && problem.grad_value_dtype != MSDA_DTYPE_F32) {
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
