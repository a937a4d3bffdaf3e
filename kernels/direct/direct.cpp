// The direct family: the generic kernel, which takes every problem, and the row kernel, which takes
// most.

#include "kernels/direct/direct.h"
#include "core/cuda.h"
#include "core/dtype.h"
#include "kernels/common/elements.h"
#include "kernels/common/make_params.h"
#include "kernels/common/row_limits.h"
#include "kernels/common/work.h"
#include "kernels/direct/direct_costs.h"
#include "registry.h"

#include <algorithm>
#include <iterator>

namespace msda::direct {

#define MSDA_VARIANT(type, channels, points, revision, sm) \
  template <>                                              \
  Instance instance<ValueType::type, channels, points>();
#include "kernels/direct/variants.inc"
#undef MSDA_VARIANT

namespace {

const Variant kVariants[] = {
#define MSDA_VARIANT(type, channels, points, revision, sm)                                       \
  {"direct.sm" #sm "." #type "." #channels "." #points "@" #revision, dtype_of(ValueType::type), \
   sm, 0},
#include "kernels/direct/variants.inc"
#undef MSDA_VARIANT
};

// What the id says, beside the variant of the same place.
struct Entry {
  Channels channels;
  Points points;
  Instance (*instance)();
};
const Entry kEntries[] = {
#define MSDA_VARIANT(type, channels, points, revision, sm) \
  {channels, points, instance<ValueType::type, channels, points>},
#include "kernels/direct/variants.inc"
#undef MSDA_VARIANT
};
static_assert(std::size(kVariants) == std::size(kEntries));

Entry const& entry_of(Variant const& variant) { return kEntries[&variant - kVariants]; }

bool is_wide(Problem const& problem) {
  return problem.coord_dtype == MSDA_F64 || problem.weight_dtype == MSDA_F64;
}

// ---- reject
// ------------------------------------------------------------------------------------------------

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

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = entry_of(variant);
  if (device.is_cpu()) return Reason::kDeviceIsCpu;
  if (device.sm < variant.sm_min) return Reason::kComputeCapability;
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

// ---- cost
// --------------------------------------------------------------------------------------------------

constexpr std::int64_t kWideHead = 64;  // channels from which work and waits go together

double work_ns(Costs const& costs, Entry const& entry, Problem const& problem) {
  auto const D = static_cast<double>(problem.head_dim);
  if (entry.channels == dany) {
    return points_of(problem) * D * costs.generic_ns *
           (problem.backward() ? costs.generic_backward_factor : 1.0);
  }
  auto const bytes = static_cast<std::int32_t>(dtype_bytes(problem.value_dtype));
  double const lanes = std::max(1.0, D / channels_of_piece(bytes));
  double const points = points_of(problem) * std::max(costs.point_ns, costs.point_lane_ns * lanes);
  double const f8 = problem.value_dtype == MSDA_F8_E4M3 ? costs.f8_factor : 1.0;
  return f8 * (points * (entry.points == pany ? costs.any_points_factor : 1.0) +
               rows_of(problem) * (costs.row_ns + costs.row_lane_ns * lanes));
}

}  // namespace

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device) {
  Entry const& entry = entry_of(variant);
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

namespace {

double cost(Variant const& variant, Problem const& problem, Device const& device) {
  return predicted_us(Costs{}, variant, problem, device);
}

// ---- workspace, prepare, launch
// ----------------------------------------------------------------------------

bool needs_sums(Problem const& problem) {
  if (!problem.backward()) return false;
  return problem.grad_value_dtype != (problem.value_dtype == MSDA_F64 ? MSDA_F64 : MSDA_F32);
}

std::byte* take_sums(Problem const& problem, Arena& arena) {
  if (!needs_sums(problem)) return nullptr;
  std::int64_t const elements =
      problem.batch * problem.token_count * problem.head_count * problem.head_dim;
  std::int64_t const bytes = problem.value_dtype == MSDA_F64 ? 8 : 4;
  return arena.take<std::byte>(static_cast<std::size_t>(elements * bytes));
}

void workspace(Variant const&, Problem const& problem, Device const&, Arena& arena) {
  take_sums(problem, arena);
}

struct DirectPlan final : Prepared {
  DirectPlan(Problem const& problem, Device const& device)
      : far_levels(problem, device), params(make_params(problem, far_levels.data())) {}
  FarLevels far_levels;
  Params params;  // all but the buffers
  Instance instance{};
  How how{};
};

PreparedPtr prepare(Variant const& variant, Problem const& problem, Device const& device,
                    std::pmr::memory_resource* memory) {
  PreparedPtr prepared = make_prepared<DirectPlan>(memory, problem, device);
  auto& plan = static_cast<DirectPlan&>(*prepared);
  plan.instance = entry_of(variant).instance();
  plan.how.backward = problem.backward();
  plan.how.fused = problem.fused();
  plan.how.wide = is_wide(problem);
  if (device.sm_count_limit != 0) plan.how.max_blocks = device.sm_count;
  plan.how.split = problem.head_count % 2 == 1;
  // 8-bit values are loaded 8 bytes at a time, all else 16.
  plan.how.aligned =
      value_strides_are_multiples(problem, dtype_bytes(problem.value_dtype) == 1 ? 8 : 16);
  plan.instance.load(plan.how);
  // Of the values, of the points, and the rounding of sums.
  if (problem.backward()) plan.launch_count = needs_sums(problem) ? 3 : 2;
  return prepared;
}

bool buffers_are_aligned(Params const& params) {
  std::uintptr_t bits = 0;
  for (const void* const pointer : {params.value, params.coord, params.weight, params.reference,
                                    static_cast<const void*>(params.output)}) {
    bits |= reinterpret_cast<std::uintptr_t>(pointer);
  }
  return bits % 16 == 0;
}

void launch(Variant const&, Launch const& launch) {
  auto const& plan = static_cast<DirectPlan const&>(*launch.prepared);
  Params params = plan.params;
  set_buffers(params, launch.call);
  Arena arena(launch.call.workspace);
  params.sums = take_sums(launch.problem, arena);
  How how = plan.how;
  how.aligned = how.aligned && buffers_are_aligned(params);
  plan.instance.launch(params, how, static_cast<cudaStream_t>(launch.call.stream));
}

}  // namespace

extern const Family kFamily;
const Family kFamily = {"direct", kVariants, reject, cost, workspace, prepare, launch};

}  // namespace msda::direct
