// Which problems a variant of the cluster family takes, and in which time.

#include "kernels/cluster/cluster_model.h"

#include "kernels/common/row_limits.h"
#include "kernels/common/work.h"
#include "kernels/persistent/cached_levels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace msda::cluster {
namespace {

// ---- reject

// As in the persistent family: tokens, the bytes of a batch item's values and from one head to the
// next fit 32 bits; so do jobs and points of all items.
bool sizes_fit(Entry const& entry, Problem const& problem) {
  using namespace persistent;
  if (problem.token_count >= kMaxTokens || item_bytes(problem) / kVecBytes > kMaxItemVecs)
    return false;
  if (problem.value.head * element_bytes(problem) > kMaxHeadBytes) return false;
  if (problem.query_count * problem.head_count >= kMaxJobs) return false;
  std::int64_t const jobs = jobs_of(entry.rows, problem).of_item;
  if (jobs > 0 && problem.batch > kMaxJobs / jobs) return false;
  std::int64_t const points = problem.query_count * problem.head_count * problem.point_total;
  return points == 0 || problem.batch <= kMaxPointsOfAll / points;
}

bool points_fit(Entry const& entry, Problem const& problem) {
  if (problem.point_total == 0) return false;
  if (entry.rows.points > 0) return every_level_has(problem, entry.rows.points);
  return problem.point_total <= persistent::kMaxPoints;
}

bool pixels_fit_fp16_records(Entry const& entry, Problem const& problem) {
  std::int64_t const most = max_pixels_of(layout_for(entry.rows, problem));
  return std::ranges::all_of(problem.levels, [most](Level const& level) {
    return level.row_tokens * level.height <= most;
  });
}

// Values are loaded in vecs, and those of a group of heads are copied together.
bool values_fit(Entry const& entry, Problem const& problem) {
  return value_strides_are_multiples(problem, persistent::kVecBytes) &&
         (layout_for(entry.rows, problem).heads == 1 || problem.value.head == problem.head_dim);
}

}  // namespace

KeptLevels kept_levels_of(Entry const& entry, Problem const& problem) {
  return choose_kept_levels(problem, group_bytes(entry.rows, problem), entry.size,
                            max_kept_bytes(entry.rows.points));
}

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = kTable[variant];
  if (device.is_cpu()) return Reason::kDeviceIsCpu;
  if (!variant.runs_on(device) || device.max_cluster_blocks == 0 || !device.has_bulk_copy) {
    return Reason::kComputeCapability;
  }
  if (problem.value_dtype != variant.value_dtype) return Reason::kValueDtype;
  if (problem.backward()) return Reason::kOperation;
  if (problem.coord_dtype == MSDA_DTYPE_F64) return Reason::kCoordDtype;
  if (problem.weight_dtype == MSDA_DTYPE_F64) return Reason::kWeightDtype;
  if (device.sm_count < entry.size) {
    return device.sm_count_limit != 0 ? Reason::kSmLimit : Reason::kClusters;
  }
  if (!head_dim_fits(problem.head_dim, entry.rows.channels, 8)) return Reason::kHeadDim;
  if (!levels_are_near(problem)) return Reason::kLevels;
  if (!points_fit(entry, problem)) return Reason::kPoints;
  if (has_fp16_sums(entry.rows.spread)) {
    if (problem.math_mode != MSDA_MATH_FAST) return Reason::kMathMode;
    if (!pixels_fit_fp16_records(entry, problem)) return Reason::kLevels;
  }
  if (!rows_are_packed(problem)) return Reason::kStrides;
  if (problem.fused()) return Reason::kInputMode;
  if (persistent::needs_exact_path(problem)) return Reason::kLevels;
  if (!values_fit(entry, problem)) return Reason::kStrides;
  if (!sizes_fit(entry, problem)) return Reason::kTooLarge;
  if (device.shared_bytes_per_block < kMaxBlockBytes) return Reason::kSharedMemory;
  return kept_levels_of(entry, problem).levels == 0 ? Reason::kSharedMemory : Reason::kNone;
}

std::string numbers_of(Reason reason, Variant const& variant, Problem const& problem,
                       Device const& device) {
  Entry const& entry = kTable[variant];
  std::int64_t const pixel_bytes = group_bytes(entry.rows, problem);
  if (reason == Reason::kClusters || reason == Reason::kSmLimit) {
    return fmt::format("{} of {}", entry.size, device.sm_count);
  }
  if (reason != Reason::kSharedMemory) return "";
  if (device.shared_bytes_per_block < kMaxBlockBytes) {
    return fmt::format("{} bytes of {}", kMaxBlockBytes, device.shared_bytes_per_block);
  }
  std::int64_t const level_bytes = least_kept_bytes(problem, pixel_bytes, entry.size);
  std::int64_t const bytes = declared_bytes(entry.rows.points) + persistent::kLineBytes;
  return fmt::format("{} bytes of {}, with a block's part of the smallest level",
                     bytes + level_bytes, kMaxBlockBytes);
}

// ---- cost

namespace {

double number(std::int64_t n) { return static_cast<double>(n); }

// Of a row, on one SM.
double row_ns(Costs const& costs, Entry const& entry, Problem const& problem) {
  KeptLevels const kept = kept_levels_of(entry, problem);
  double const group = number(group_bytes(entry.rows, problem));
  double const far = entry.size > 2 ? costs.far_factor : 1.0;
  double const point_ns =
      has_fp16_sums(entry.rows.spread) ? costs.fp16_point_ns : costs.f32_point_ns;
  double points_ns = 0;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    Level const& level = problem.levels[l];
    double const bytes = number(level.height * level.width) * group;
    double const more = kept.splits(l) ? costs.remote_ns * far
                        : kept.has(l)  ? 0
                                       : costs.miss_ns * bytes / (bytes + costs.l1_bytes);
    points_ns += number(level.point_count) * (point_ns + more);
  }
  double const row_bytes =
      number(std::int64_t{entry.rows.channels} * persistent::element_bytes(problem));
  return costs.row_ns + points_ns * std::max(row_bytes / 64, 1.0);
}

}  // namespace

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device) {
  Entry const& entry = kTable[variant];
  double const clusters = std::max(std::floor(number(device.sm_count) / entry.size), 1.0);
  double const work_us =
      1e-3 * rows_of(problem) / (clusters * entry.size) * row_ns(costs, entry, problem);
  double const groups =
      number(problem.batch) * number(problem.head_count) / layout_for(entry.rows, problem).heads;
  double const tiles =
      number(persistent::cached_rounds(persistent::value_bytes(problem))) + groups / clusters;
  return costs.launch_us + costs.copy_us * tiles +
         std::max(work_us, forward_bytes(problem) / costs.bytes_per_us);
}

double cost(Variant const& variant, Problem const& problem, Device const& device) {
  return predicted_us(Costs{}, variant, problem, device);
}

}  // namespace msda::cluster
