#include "kernels/persistent/schedule.h"

#include "kernels/persistent/cached_levels.h"
#include "kernels/persistent/entry.h"

#include <algorithm>
#include <bit>

namespace msda::persistent {

Divider divider(std::uint32_t divisor) {
  auto const shift = static_cast<std::uint32_t>(std::bit_width(divisor - 1));
  std::uint64_t const power = std::uint64_t{1} << (31 + shift);
  return {divisor, static_cast<std::uint32_t>((power + divisor - 1) / divisor), shift};
}

namespace {

// Rounds in which the jobs are dealt, where there are enough: concurrent tiles are then neighbours
// that share L2, and cheap and dear regions spread over the SMs. Where all regions cost alike each
// block had better keep to one. More rounds where L2 would not hold the values that one reads.
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
  auto const at_least_one = [&](std::int64_t n) { return u32(std::max<std::int64_t>(n, 1)); };
  ScheduleParams schedule{};
  schedule.jobs = u32(jobs);
  schedule.groups = divider(at_least_one(each.of_item / std::max<std::int64_t>(each.of_group, 1)));
  schedule.group_jobs = divider(at_least_one(each.of_group));
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

void cache_levels_in(ScheduleParams& schedule, Entry const& entry, Problem const& problem) {
  std::int64_t const pixel_bytes = group_bytes(entry, problem);
  CachedLevels const cached = choose_cached_levels(problem, pixel_bytes);
  auto const u32 = [](std::int64_t n) { return static_cast<std::uint32_t>(n); };
  schedule.cached_levels = cached.levels;
  schedule.shared_bytes = u32(cached.shared_bytes());
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    if ((cached.levels >> l & 1) == 0) continue;
    schedule.cached_bytes[l] = u32(cached.bytes[l]);
    schedule.places[l].origin = u32(cached.begin[l] / kVecBytes);
    schedule.row_stride[l] = u32(problem.levels[l].row_tokens * pixel_bytes / kVecBytes);
  }
  std::int64_t const jobs = schedule.group_jobs.divisor;
  std::int64_t const groups = std::max<std::int64_t>(schedule.groups.divisor * problem.batch,
                                                     1);  // none is launched where B is 0
  GridRanges const ranges = grid_ranges_of(jobs, groups, schedule.blocks, value_bytes(problem));
  schedule.group_indices = divider(u32(ranges.group_indices));
  schedule.index_count = u32(ranges.group_indices * groups);
  schedule.grid_range = u32(ranges.grid_range);
}

}  // namespace msda::persistent
