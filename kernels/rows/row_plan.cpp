#include "kernels/rows/row_plan.h"

#include "kernels/common/row_limits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace msda::rows {

bool sizes_fit(Entry const& entry, Problem const& problem) {
  if (problem.token_count >= kMaxTokens || item_bytes(problem) / kVecBytes > kMaxItemVecs)
    return false;
  if (problem.value.head * element_bytes(problem) > kMaxHeadBytes) return false;
  if (problem.query_count * problem.head_count >= kMaxJobs) return false;
  std::int64_t const jobs = jobs_of(entry, problem).of_item;
  if (jobs > 0 && problem.batch > kMaxJobs / jobs) return false;
  std::int64_t const points = problem.query_count * problem.head_count * problem.point_total;
  return points == 0 || problem.batch <= kMaxPointsOfAll / points;
}

bool pixels_fit_fp16_points(Entry const& entry, Problem const& problem) {
  std::int64_t const most = max_pixels_of(layout_for(entry, problem));
  return std::ranges::all_of(problem.levels, [most](Level const& level) {
    return level.row_tokens * level.height <= most;
  });
}

bool groups_are_whole(Entry const& entry, Problem const& problem) {
  return problem.point_total % group_of(layout_for(entry, problem), entry.points) == 0;
}

bool levels_are_wide(Problem const& problem) {
  return std::ranges::all_of(
      problem.levels, [](Level const& level) { return level.width > 1 && level.height > 1; });
}

// ---- the schedule

Divider divider(std::uint32_t divisor) {
  auto const shift = static_cast<std::uint32_t>(std::bit_width(divisor - 1));
  std::uint64_t const power = std::uint64_t{1} << (31 + shift);
  return {divisor, static_cast<std::uint32_t>((power + divisor - 1) / divisor), shift};
}

namespace {

// Jobs are dealt in rounds, where there are enough: concurrent tiles are then neighbours that
// share L2, and cheap and dear regions spread over the SMs. Blocks keep to one region where all
// regions cost alike. There are more rounds where L2 would not hold the values that one reads.
constexpr std::int64_t kMinTileJobs = 48;       // jobs
constexpr std::int64_t kMinLargeTileJobs = 24;  // the same, where values are
constexpr double kUsualRounds = 6;
constexpr double kRoundBytes = 32e6;  // of values
constexpr double kAlikeRoundBytes = 16e6;

std::int64_t rounds_of(Problem const& problem, QueryOrder const& order, std::int64_t jobs,
                       std::int64_t blocks) {
  double const bytes = value_bytes(problem);
  double const round_bytes = order.mixes_grids ? kAlikeRoundBytes : kRoundBytes;
  double const usual = order.mixes_grids ? 1 : kUsualRounds;
  double const most = std::clamp<double>(bytes / round_bytes, usual, kMaxRounds);
  std::int64_t const least = blocks * (bytes > kRoundBytes ? kMinLargeTileJobs : kMinTileJobs);
  return std::clamp<std::int64_t>(jobs / std::max<std::int64_t>(least, 1), 1,
                                  static_cast<std::int64_t>(most));
}

}  // namespace

ScheduleParams make_schedule(Entry const& entry, Problem const& problem, QueryOrder const& order,
                             Device const& device) {
  Jobs const each = jobs_of(entry, problem);
  std::int64_t const jobs = each.of_item * problem.batch;
  std::int64_t const blocks = std::min<std::int64_t>(device.sm_count, jobs);
  std::int64_t const rounds = rounds_of(problem, order, jobs, blocks);
  std::int64_t const dealt = std::max<std::int64_t>(blocks * rounds, 1);
  auto const u32 = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  // Beside an empty dimension a number may be too large for a call that is never made.
  auto const at_least_one = [&](std::int64_t n) {
    return u32(std::clamp<std::int64_t>(n, 1, std::numeric_limits<std::uint32_t>::max()));
  };
  ScheduleParams schedule{};
  schedule.jobs = u32(jobs);
  schedule.head_groups =
      divider(at_least_one(each.of_item / std::max<std::int64_t>(each.of_group, 1)));
  schedule.head_group_jobs = divider(at_least_one(each.of_group));
  schedule.tile_jobs = divider(at_least_one((jobs + dealt - 1) / dealt));
  schedule.blocks = at_least_one(blocks);
  schedule.rounds = u32(rounds);
  schedule.rotation = u32(blocks / (rounds + 1) + 1);
  schedule.visits = u32(problem.query_count);
  schedule.heads = u32(problem.head_count);
  schedule.points = u32(problem.point_total);
  schedule.head_dim = u32(problem.head_dim);
  std::int64_t const element = element_bytes(problem);
  schedule.item_bytes = static_cast<std::uint64_t>(problem.value.batch * element);
  schedule.head_bytes = u32(problem.value.head * element);
  schedule.exact_only = needs_exact_path(problem);
  std::int64_t const pixel_bytes = problem.value.row * element;
  schedule.pixel_stride = u32(pixel_bytes / kVecBytes);
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    schedule.places[l] = {static_cast<float>(level.width) * kPixel,
                          static_cast<float>(level.height) * kPixel, u32(level.row_tokens),
                          u32(level.origin * pixel_bytes / kVecBytes)};
    schedule.column_stride[l] = level.width > 1 ? schedule.pixel_stride : 0;
    schedule.row_stride[l] = level.height > 1 ? u32(level.row_tokens * pixel_bytes / kVecBytes) : 0;
  }
  return schedule;
}

// ---- grid ranges

namespace {

// Blocks with cached levels have a grid range every round, and in it a tile of each head group,
// for which they copy the group's levels. So a round reads no more values than L2 holds beside
// what streams through it.
constexpr double kCachedRoundBytes = 28e6;
constexpr std::int64_t kCopyingIndices = 12;  // jobs that could be done while levels are copied
constexpr double kMinBusy = 0.95;             // blocks, for ranges that each are of one group

}  // namespace

std::int64_t cached_rounds(double value_bytes) {
  return static_cast<std::int64_t>(
      std::clamp<double>(std::round(value_bytes / kCachedRoundBytes), 1, kMaxRounds));
}

GridRanges grid_ranges_of(std::int64_t jobs, std::int64_t groups, std::int64_t blocks,
                          double value_bytes) {
  std::int64_t const ranges = blocks * cached_rounds(value_bytes);
  std::int64_t const of_group = std::min(ranges / std::max<std::int64_t>(groups, 1), jobs);
  std::int64_t const indices = jobs + std::min(kCopyingIndices, jobs / 8);
  // Blocks that copy twice are late, so a few had better have nothing.
  if (static_cast<double>(of_group * groups) >= kMinBusy * static_cast<double>(ranges)) {
    std::int64_t const grid_range = (jobs + of_group - 1) / of_group;
    return {jobs, grid_range * of_group, grid_range};
  }
  return {jobs, indices, (indices * groups + ranges - 1) / ranges};
}

std::int64_t GridRanges::tile_count(std::int64_t groups) const {
  std::int64_t const end = head_group_indices * groups, copying = head_group_indices - jobs;
  std::int64_t tiles = 0;
  for (std::int64_t begin = 0; begin < end; begin += grid_range) {
    std::int64_t const range_end = std::min(begin + grid_range, end);
    for (std::int64_t index = begin; index < range_end;) {
      std::int64_t const group_begin = index / head_group_indices * head_group_indices;
      std::int64_t const next = std::min(group_begin + head_group_indices, range_end);
      if (next - group_begin > copying) ++tiles;
      index = next;
    }
  }
  return tiles;
}

}  // namespace msda::rows
