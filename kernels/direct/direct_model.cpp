// Which problems a variant of the direct family takes, and in which time.

#include "kernels/direct/direct_model.h"

#include "core/dtype.h"
#include "kernels/common/row_limits.h"
#include "kernels/common/work.h"

#include <algorithm>

namespace msda::direct {
namespace {

// ---- reject

bool sizes_fit(Problem const& problem) {
  std::int64_t const bytes = problem.value.row * dtype_bytes(problem.value_dtype);
  if (problem.token_count >= kMaxTokens || bytes > kMaxBytes) return false;
  if (problem.head_count > INT32_MAX) return false;
  return std::all_of(problem.levels.begin(), problem.levels.end(), [&](Level const& level) {
    return bytes == 0 || level.row_tokens <= kMaxBytes / bytes;
  });
}

bool points_fit(Entry const& entry, Problem const& problem) {
  if (entry.points == pany) return problem.point_total <= kMaxPoints;
  return every_level_has(problem, entry.points);
}

}  // namespace

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = kTable[variant];
  if (device.is_cpu()) return Reason::kDeviceIsCpu;
  if (!variant.runs_on(device)) return Reason::kComputeCapability;
  if (problem.value_dtype != variant.value_dtype) return Reason::kValueDtype;
  if (entry.channels == dany) return Reason::kNone;
  if (problem.backward()) return Reason::kOperation;
  if (problem.coord_dtype == MSDA_F64) return Reason::kCoordDtype;
  if (problem.weight_dtype == MSDA_F64) return Reason::kWeightDtype;
  if (device.sm_count_limit != 0) return Reason::kSmLimit;
  if (!head_dim_fits(problem.head_dim, entry.channels, 8)) return Reason::kHeadDim;
  if (!levels_are_near(problem)) return Reason::kLevels;
  if (!points_fit(entry, problem)) return Reason::kPoints;
  if (!rows_are_packed(problem)) return Reason::kStrides;
  return sizes_fit(problem) ? Reason::kNone : Reason::kTooLarge;
}

namespace {

// ---- cost

constexpr std::int64_t kWideHead = 64;  // channels from which work and waits go together

double work_ns(Costs const& costs, Entry const& entry, Problem const& problem) {
  auto const D = static_cast<double>(problem.head_dim);
  if (entry.channels == dany) {
    return points_of(problem) * D * costs.generic_ns *
           (problem.backward() ? costs.generic_backward_factor : 1.0);
  }
  auto const bytes = static_cast<std::int32_t>(dtype_bytes(problem.value_dtype));
  double const lanes = std::max(1.0, D / channels_of_vec(bytes));
  double const points = points_of(problem) * std::max(costs.point_ns, costs.point_lane_ns * lanes);
  double const conversion = bytes == 1 ? costs.f8_factor : 1.0;
  return conversion * (points * (entry.points == pany ? costs.any_points_factor : 1.0) +
                       rows_of(problem) * (costs.row_ns + costs.row_lane_ns * lanes));
}

}  // namespace

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device) {
  Entry const& entry = kTable[variant];
  double const work_us = 1e-3 * work_ns(costs, entry, problem) / device.sm_count;
  double const waits = static_cast<double>(problem.point_total) *
                       (entry.channels == dany ? costs.generic_waits : 1.0);
  double const waits_us = costs.wait_us * waits;
  double const busy_us = std::max(work_us, forward_bytes(problem) / costs.bytes_per_us);
  double const both_us = entry.channels != dany && problem.head_dim >= kWideHead
                             ? costs.work_in_waits * waits_us
                             : 0.0;
  return costs.launch_us + std::max(waits_us, waits_us + busy_us - both_us);
}

double cost(Variant const& variant, Problem const& problem, Device const& device) {
  return predicted_us(Costs{}, variant, problem, device);
}

extern const FamilyModel kModel;
const FamilyModel kModel = {"direct", kTable.variants(), reject, cost, counts};

}  // namespace msda::direct
