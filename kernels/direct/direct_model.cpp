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
  if (problem.coord_dtype == MSDA_DTYPE_F64) return Reason::kCoordDtype;
  if (problem.weight_dtype == MSDA_DTYPE_F64) return Reason::kWeightDtype;
  if (device.sm_count_limit != 0) return Reason::kSmLimit;
  if (!head_dim_fits(problem.head_dim, entry.channels, 8)) return Reason::kHeadDim;
  if (!levels_are_near(problem)) return Reason::kLevels;
  if (!points_fit(entry, problem)) return Reason::kPoints;
  if (!rows_are_packed(problem)) return Reason::kStrides;
  return sizes_fit(problem) ? Reason::kNone : Reason::kTooLarge;
}

namespace {

// ---- cost

double number(std::int64_t n) { return static_cast<double>(n); }

double generic_work_ns(Costs const& costs, Problem const& problem) {
  return points_of(problem) * number(problem.head_dim) * costs.generic_ns *
         (problem.backward() ? costs.generic_backward_factor : 1.0);
}

double row_work_ns(Costs const& costs, Entry const& entry, Problem const& problem,
                   RowWork const& row) {
  double const vec_ns =
      costs.point_vec_ns * (dtype_bytes(problem.value_dtype) == 4 ? costs.f32_factor : 1.0);
  double const gather_ns = std::max(costs.point_ns, vec_ns * number(row.all_vecs)) *
                           (entry.points == pany ? costs.any_points_factor : 1.0);
  double const locate_ns = costs.locate_ns + (problem.fused() ? costs.fused_ns : 0.0);
  return rows_of(problem) *
         (gather_ns * number(row.points) + locate_ns * number(row.chunks * row.lanes) +
          costs.row_vec_ns * number(row.all_vecs));
}

// Of a row: its loads, one after the other.
double row_waits_us(Costs const& costs, Problem const& problem, RowWork const& row) {
  return costs.wait_us * number(row.points / row.in_flight) +
         costs.chunk_wait_us * number(row.chunks) + (problem.fused() ? costs.fused_wait_us : 0.0);
}

}  // namespace

RowWork work_of_row(Entry const& entry, Problem const& problem) {
  auto const bytes = static_cast<std::int32_t>(dtype_bytes(problem.value_dtype));
  RowWork row;
  row.all_vecs = entry.channels / channels_of_vec(bytes);
  std::int64_t const group = std::min<std::int64_t>(row.all_vecs, kWarp);
  row.split = problem.head_count % 2 == 1 && is_half_line(entry.channels, bytes);
  row.lanes = row.split ? 2 * group : group;
  row.vecs = row.all_vecs / group;
  row.in_flight = row.lanes < 2 || row.vecs > 1 ? 1 : 2;
  for (std::int64_t k = 0; k < problem.point_total; k += row.lanes, ++row.chunks) {
    std::int64_t const of_chunk = std::min(row.lanes, problem.point_total - k);
    row.points += (of_chunk + row.in_flight - 1) / row.in_flight * row.in_flight;
  }
  return row;
}

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device) {
  Entry const& entry = kTable[variant];
  double work_ns = 0, waits_us = 0;
  if (entry.channels == dany) {
    work_ns = generic_work_ns(costs, problem);
    waits_us = costs.generic_wait_us * number(problem.point_total) +
               (problem.backward() ? costs.generic_backward_us : 0.0);
  } else {
    RowWork const row = work_of_row(entry, problem);
    work_ns = row_work_ns(costs, entry, problem, row);
    waits_us = row_waits_us(costs, problem, row);
  }
  return costs.launch_us + waits_us +
         std::max(1e-3 * work_ns / device.sm_count, forward_bytes(problem) / costs.bytes_per_us);
}

double cost(Variant const& variant, Problem const& problem, Device const& device) {
  return predicted_us(Costs{}, variant, problem, device);
}

extern const FamilyModel kModel;
const FamilyModel kModel = {"direct", kTable.variants(), reject, cost, counts};

}  // namespace msda::direct
