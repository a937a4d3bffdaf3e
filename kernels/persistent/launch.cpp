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
  PersistentPlan(Variant const& variant, Problem const& problem, Device const& device)
      : PersistentPlan(variant, problem, device, query_order(problem)) {}
  PersistentPlan(Variant const& variant, Problem const& problem, Device const& device,
                 QueryOrder const& query_order)
      : order(query_order.queries, device),
        params(make_params(problem)),
        schedule(schedule_of(variant, problem, query_order, device)),
        exact_schedule(make_schedule(kTable[variant], problem, query_order, device)),
        kernels(kLoad[kTable.index_of(variant)]({.fused = problem.fused(),
                                                 .grouped = is_grouped(kTable[variant], problem),
                                                 .heads = known_heads(kTable[variant], problem),
                                                 .inputs = input_types(problem)})),
        attention(attention::prepare(problem, device, *this)),
        has_aligned_strides(value_strides_are_multiples(problem, kVecBytes)),
        has_whole_groups(groups_are_whole(kTable[variant], problem)) {
    schedule.order = exact_schedule.order = order.data();
  }
  DeviceArray<std::int32_t> order;  // [Q] queries, or none
  Params params;                    // all but the buffers
  ScheduleParams schedule;          // the same
  // Calls with values at odd addresses have this: no levels are cached then.
  ScheduleParams exact_schedule;
  Kernels kernels;
  attention::Writer attention;
  bool has_aligned_strides;
  bool has_whole_groups;
};

void launch(Variant const&, Launch const& launch) {
  auto const& plan = static_cast<PersistentPlan const&>(*launch.prepared);
  if (plan.schedule.jobs == 0) return;
  Params const params = with_buffers(plan.params, launch.call);
  auto* const stream = static_cast<cudaStream_t>(launch.call.stream);
  attention::launch(plan.attention, params, stream);
  bool const aligned = plan.has_aligned_strides && is_aligned(params.value, kVecBytes);
  ScheduleParams schedule = aligned ? plan.schedule : plan.exact_schedule;
  schedule.wide_inputs = plan.has_whole_groups && is_aligned(params.coord, kVecBytes) &&
                         is_aligned(params.weight, kVecBytes) &&
                         is_aligned(params.reference, kVecBytes);
  schedule.aligned_output = is_aligned(params.output, kVecBytes);
  RowsKernel const& rows = plan.kernels[aligned][schedule.wide_inputs];
  launch_overlapping(rows.kernel,
                     {.blocks = schedule.blocks,
                      .threads = rows.threads,
                      .shared_bytes = rows.caches_levels ? schedule.shared_bytes : 0},
                     stream, params, schedule);
}

}  // namespace

extern const FamilyCode kCode = {prepare<PersistentPlan>, launch};

}  // namespace msda::persistent
