// The persistent family on a device: as many blocks as it has SMs, each with tiles of neighbouring
// rows.

#include "kernels/attention/launch.h"
#include "core/device_array.h"
#include "kernels/persistent/plan.h"

namespace msda::persistent {
namespace {

// Loads the kernels of each row of variants.inc.
constexpr Kernels (*kLoad[])(KernelOptions) = {
#define MSDA_VARIANT(type, channels, points, spread, ...) \
  load_kernels<ValueType::type, channels, points, spread>,
#include "rows/persistent.inc"
#undef MSDA_VARIANT
};

struct PersistentPlan final : Prepared {
  PersistentPlan(Problem const& problem, QueryOrder const& query_order, Device const& device)
      : order(query_order.queries, device), params(make_params(problem)) {}
  DeviceArray<std::int32_t> order;  // [Q] queries, or none
  Params params;                    // all but the buffers
  ScheduleParams schedule{};        // the same
  // Calls with values at odd addresses have this: no levels are cached then.
  ScheduleParams exact_schedule{};
  Kernels kernels{};
  attention::Writer attention;
  bool has_aligned_strides = false;
  bool has_whole_groups = false;
  bool has_f32_inputs = false;
};

PreparedPtr prepare(Variant const& variant, Problem const& problem, Device const& device,
                    std::pmr::memory_resource* memory) {
  QueryOrder const order = query_order(problem);
  PreparedPtr prepared = make_prepared<PersistentPlan>(memory, problem, order, device);
  auto& plan = static_cast<PersistentPlan&>(*prepared);
  Entry const& entry = kTable[variant];
  plan.schedule = schedule_of(variant, problem, order, device);
  plan.exact_schedule = make_schedule(entry, problem, order, device);
  plan.schedule.order = plan.exact_schedule.order = plan.order.data();
  plan.kernels = kLoad[kTable.index_of(variant)]({.fused = problem.fused(),
                                                  .grouped = is_grouped(entry, problem),
                                                  .heads = known_heads(entry, problem)});
  plan.has_aligned_strides = value_strides_are_multiples(problem, kVecBytes);
  plan.has_whole_groups = groups_are_whole(entry, problem);
  plan.has_f32_inputs = problem.coord_dtype == MSDA_DTYPE_F32 &&
                        problem.weight_dtype == MSDA_DTYPE_F32 &&
                        (!problem.fused() || problem.reference_dtype == MSDA_DTYPE_F32);
  plan.attention = attention::prepare(problem, device, plan);
  return prepared;
}

void launch(Variant const&, Launch const& launch) {
  auto const& plan = static_cast<PersistentPlan const&>(*launch.prepared);
  if (plan.schedule.jobs == 0) return;
  Params params = plan.params;
  set_buffers(params, launch.call);
  auto* const stream = static_cast<cudaStream_t>(launch.call.stream);
  attention::launch(plan.attention, params, stream);
  bool const aligned = plan.has_aligned_strides && is_aligned(params.value, kVecBytes);
  ScheduleParams schedule = aligned ? plan.schedule : plan.exact_schedule;
  schedule.wide_inputs = plan.has_whole_groups && is_aligned(params.coord, kVecBytes) &&
                         is_aligned(params.weight, kVecBytes) &&
                         is_aligned(params.reference, kVecBytes);
  schedule.aligned_output = is_aligned(params.output, kVecBytes);
  bool const f32_inputs = plan.has_f32_inputs && schedule.wide_inputs;
  RowsKernel const& rows = plan.kernels[aligned][f32_inputs ? inputs_f32 : inputs_any];
  launch_overlapping(rows.kernel,
                     {.blocks = schedule.blocks,
                      .threads = rows.threads,
                      .shared_bytes = rows.caches_levels ? schedule.shared_bytes : 0},
                     stream, params, schedule);
}

}  // namespace

extern const FamilyCode kCode = {prepare, launch};

}  // namespace msda::persistent
