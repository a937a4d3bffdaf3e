// The cluster family on a device: levels spread over the shared memory of a cluster's blocks.

#include "kernels/common/launch.h"
#include "core/device_array.h"
#include "core/status.h"
#include "kernels/cluster/plan.h"

#include <algorithm>

namespace msda::cluster {
namespace {

// Loads the kernels of each id.
constexpr Kernels (*kLoad[])(KernelOptions) = {
#define MSDA_VARIANT(type, channels, points, spread, sizes, ...) \
  MSDA_ROWS_##sizes(MSDA_ROW, type, channels, points, spread)
#define MSDA_ROW(size, type, channels, points, spread) \
  load_kernels<ValueType::type, channels, points, spread>,
#include "rows/cluster.inc"
#undef MSDA_ROW
#undef MSDA_VARIANT
};

bool is_one(Entry const& entry, Problem const& problem) {
  return problem.head_count == 1 && problem.head_dim == entry.rows.channels &&
         problem.value.row == problem.head_dim && levels_are_wide(problem);
}

// Whether the levels of a problem are what KernelOptions::is_pyramid says.
bool is_pyramid(Entry const& entry, Problem const& problem, CachedLevels const& cached) {
  constexpr std::uint32_t kCoarse = 0b1110, kSecond = 0b0010;
  bool const are_four = problem.levels.size() == 4 && cached.levels == kCoarse &&
                        cached.split == kSecond && is_one(entry, problem) && entry.size == 2;
  return are_four && problem.levels[0].point_count % kMaxGroup == 0 &&
         every_level_has(problem, problem.levels[0].point_count);
}

struct ClusterPlan final : Prepared {
  ClusterPlan(Variant const& variant, Problem const& problem, Device const& device)
      : ClusterPlan(variant, problem, device, query_order(problem)) {}
  ClusterPlan(Variant const& variant, Problem const& problem, Device const& device,
              QueryOrder const& query_order)
      : order(query_order.queries, device), params(make_params(problem)) {
    Entry const& entry = kTable[variant];
    CachedLevels const levels = cached_levels_of(entry, problem);
    size = entry.size;
    shared_bytes = levels.buffers * levels.bytes + kLineBytes;
    kernels = kLoad[kTable.index_of(variant)]({.grouped = is_grouped(entry.rows, problem),
                                               .is_one = is_one(entry, problem),
                                               .is_pair = size == 2,
                                               .is_pyramid = is_pyramid(entry, problem, levels),
                                               .size = size,
                                               .shared_bytes = shared_bytes});
    if (kernels.max_clusters == 0) {
      fail(MSDA_ERROR_UNSUPPORTED,
           "{} runs in clusters of {} blocks with {} bytes of shared memory each, of which the "
           "device, {}, runs none at a time",
           variant.id, size, kDeclaredBytes + shared_bytes, device.name);
    }
    auto const clusters = std::min<std::int64_t>(kernels.max_clusters, device.sm_count / size);
    cached = cache_params(entry, problem, levels);
    schedule = cluster_schedule(entry, problem, query_order, device, levels, clusters);
    schedule.order = order.data();
    has_whole_groups =
        problem.point_total % cluster::group_of(layout_for(entry.rows, problem)) == 0;
    has_f32_inputs = input_types(problem) == inputs_f32;
  }
  DeviceArray<std::int32_t> order;  // [Q] queries, or none
  Params params;                    // all but the buffers
  ScheduleParams schedule{};        // the same
  CacheParams cached{};
  Kernels kernels{};
  std::int64_t shared_bytes = 0;
  std::int32_t size = 1;
  bool has_whole_groups = false;
  bool has_f32_inputs = false;
};

void launch(Variant const&, Launch const& launch) {
  auto const& plan = static_cast<ClusterPlan const&>(*launch.prepared);
  if (plan.schedule.jobs == 0) return;
  Params const params = with_buffers(plan.params, launch.call);
  bool const aligned = is_aligned(params.value, kVecBytes);
  ScheduleParams schedule = plan.schedule;
  schedule.wide_inputs = plan.has_whole_groups && is_aligned(params.coord, kVecBytes) &&
                         is_aligned(params.weight, kVecBytes);
  schedule.aligned_output = is_aligned(params.output, kVecBytes);
  launch_overlapping(plan.kernels.rows[aligned][plan.has_f32_inputs && schedule.wide_inputs],
                     {.blocks = std::int64_t{schedule.blocks} * plan.size,
                      .threads = kThreads,
                      .shared_bytes = plan.shared_bytes,
                      .cluster_blocks = plan.size},
                     static_cast<cudaStream_t>(launch.call.stream), params, schedule, plan.cached);
}

}  // namespace

extern const FamilyCode kCode = {prepare<ClusterPlan>, launch};

}  // namespace msda::cluster
