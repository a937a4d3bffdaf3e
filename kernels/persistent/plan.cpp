// Which problems a variant of the persistent family takes, and how their rows are dealt.

#include "kernels/persistent/plan.h"

#include "kernels/common/row_limits.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace msda::persistent {

using namespace rows;
namespace {

bool points_fit(Entry const& entry, Problem const& problem) {
  if (problem.point_total == 0) return false;
  if (entry.points > 0) return every_level_has(problem, entry.points);
  return problem.point_total <= (entry.points == pfew ? kFewPoints : kMaxPoints);
}

bool groups_have_one_level(Problem const& problem) {
  return std::ranges::all_of(problem.levels,
                             [](Level const& level) { return level.point_count % kMaxGroup == 0; });
}

}  // namespace

Heads known_heads(Entry const& entry, Problem const& problem) {
  bool const is_packed = problem.head_dim == entry.channels &&
                         problem.value.row == problem.head_count * problem.head_dim &&
                         problem.value.head == problem.head_dim;
  if (!is_packed || !levels_are_wide(problem)) return heads_any;
  return problem.head_count == heads_1   ? heads_1
         : problem.head_count == heads_8 ? heads_8
                                         : heads_any;
}

namespace {

// Reasons that only kernels with cached levels have.
Reason reject_caching(Entry const& entry, Problem const& problem, Device const& device) {
  if (device.shared_bytes_per_block < kMaxCachedBytes) return Reason::kSharedMemory;
  if (problem.fused()) return Reason::kInputMode;
  if (problem.head_dim != entry.channels) return Reason::kHeadDim;
  if (problem.head_count != heads_1 && problem.head_count != heads_8) return Reason::kHeadCount;
  if (needs_exact_path(problem) || !levels_are_wide(problem)) return Reason::kLevels;
  if (known_heads(entry, problem) == heads_any ||
      !value_strides_are_multiples(problem, kVecBytes)) {
    return Reason::kStrides;
  }
  return choose_cached_levels(problem, head_group_bytes(entry, problem)).levels == 0
             ? Reason::kLevels
             : Reason::kNone;
}

}  // namespace

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = kTable[variant];
  if (Reason const reason = reject_basics(variant, problem, device); reason != Reason::kNone) {
    return reason;
  }
  if (problem.backward()) return Reason::kOperation;
  if (problem.coord_dtype == MSDA_DTYPE_F64) return Reason::kCoordDtype;
  if (problem.weight_dtype == MSDA_DTYPE_F64) return Reason::kWeightDtype;
  std::int64_t const of_vec = channels_of_vec(element_bytes(problem));
  if (!head_dim_fits(problem.head_dim, entry.channels, std::max<std::int64_t>(of_vec, 8))) {
    return Reason::kHeadDim;
  }
  if (!levels_are_near(problem)) return Reason::kLevels;
  if (!points_fit(entry, problem)) return Reason::kPoints;
  if (has_fp16_sums(entry.spread)) {
    if (problem.math_mode != MSDA_MATH_FAST) return Reason::kMathMode;
    if (!pixels_fit_fp16_points(entry, problem)) return Reason::kLevels;
    if (!groups_have_one_level(problem)) return Reason::kPoints;
  }
  if (!rows_are_packed(problem)) return Reason::kStrides;
  if (caches_levels(entry.spread)) {
    if (Reason const reason = reject_caching(entry, problem, device); reason != Reason::kNone) {
      return reason;
    }
  }
  return sizes_fit(entry, problem) ? Reason::kNone : Reason::kTooLarge;
}

extern const FamilyModel kModel;
const FamilyModel kModel = {"persistent", kTable.variants(), reject, cost, counts};

// ---- cached levels

CachedLevels choose_cached_levels(Problem const& problem, std::int64_t pixel_bytes) {
  std::array<std::size_t, kInlineLevels> numbers;
  auto const order = std::span(numbers).first(problem.levels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // From the first pixel to the last one; borders lie between them.
  auto const bytes_of = [&](std::size_t l) {
    Level const& level = problem.levels[l];
    return ((level.height - 1) * level.row_tokens + level.width) * pixel_bytes;
  };
  std::ranges::stable_sort(order, {}, bytes_of);
  CachedLevels cached;
  for (std::size_t const l : order) {
    std::int64_t const lines = (bytes_of(l) + kLineBytes - 1) / kLineBytes;
    if (cached.shared_bytes() + lines * kLineBytes > kMaxCachedBytes) break;
    cached.levels |= std::uint32_t{1} << l;
    cached.begin[l] = cached.end;
    cached.bytes[l] = bytes_of(l);
    cached.end += lines * kLineBytes;
  }
  return cached;
}

namespace {

// Changes a schedule of make_schedule() to one with cached levels.
void cache_levels_in(ScheduleParams& schedule, Entry const& entry, Problem const& problem) {
  std::int64_t const pixel_bytes = head_group_bytes(entry, problem);
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
  std::int64_t const jobs = schedule.head_group_jobs.divisor;
  std::int64_t const groups = std::max<std::int64_t>(schedule.head_groups.divisor * problem.batch,
                                                     1);  // none is launched where B is 0
  GridRanges const ranges = grid_ranges_of(jobs, groups, schedule.blocks, value_bytes(problem));
  schedule.head_group_indices = divider(u32(ranges.head_group_indices));
  schedule.index_count = u32(ranges.head_group_indices * groups);
  schedule.grid_range = u32(ranges.grid_range);
}

}  // namespace

ScheduleParams schedule_of(Variant const& variant, Problem const& problem, QueryOrder const& order,
                           Device const& device) {
  Entry const& entry = kTable[variant];
  ScheduleParams schedule = make_schedule(entry, problem, order, device);
  if (caches_levels(entry.spread)) cache_levels_in(schedule, entry, problem);
  return schedule;
}

}  // namespace msda::persistent
