// The cluster family: levels spread over the shared memory of a cluster's blocks.

#include "kernels/cluster/cluster.h"

#include "core/cuda.h"
#include "core/family.h"
#include "core/status.h"
#include "kernels/cluster/cluster_model.h"
#include "kernels/common/device_array.h"
#include "kernels/common/make_params.h"
#include "kernels/common/row_limits.h"
#include "kernels/persistent/cached_levels.h"
#include "kernels/persistent/query_order.h"
#include "kernels/persistent/schedule.h"

#include <algorithm>
#include <bit>

namespace msda::cluster {
namespace {

// Loads the kernels of each id.
constexpr Kernels (*kLoad[])(KernelOptions) = {
#define MSDA_VARIANT(type, channels, points, spread, sizes, ...) \
  MSDA_ROWS_##sizes(MSDA_ROW, type, channels, points, spread)
#define MSDA_ROW(size, type, channels, points, spread) \
  load_kernels<ValueType::type, persistent::channels, persistent::points, persistent::spread>,
#include "rows/cluster.inc"
#undef MSDA_ROW
#undef MSDA_VARIANT
};

std::uint32_t u32(std::int64_t n) { return static_cast<std::uint32_t>(n); }

KeptParams kept_params(Entry const& entry, Problem const& problem, KeptLevels const& levels) {
  KeptParams kept{};
  std::int64_t const pixel_bytes = group_bytes(entry.rows, problem);
  kept.size_mask = u32(entry.size - 1);
  kept.size_shift = u32(std::countr_zero(u32(entry.size)));
  kept.kept_levels = levels.levels;
  kept.split_levels = levels.split;
  kept.buffer_bytes = u32(levels.bytes);
  kept.buffers = u32(levels.buffers);
  kept.pixel_bytes = u32(pixel_bytes);
  kept.copies_rows = problem.value.row * persistent::element_bytes(problem) == pixel_bytes;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    kept.begin[l] = u32(levels.begin[l]);
    kept.row_pixels[l] = u32(levels.row_pixels[l]);
  }
  return kept;
}

// The schedule of the persistent family for blocks that cache levels, with clusters for blocks.
ScheduleParams cluster_schedule(Entry const& entry, Problem const& problem,
                                persistent::QueryOrder const& order, Device const& device,
                                KeptLevels const& kept, std::int64_t clusters) {
  ScheduleParams schedule = persistent::make_schedule(entry.rows, problem, order, device);
  std::int64_t const pixel_vecs = group_bytes(entry.rows, problem) / persistent::kVecBytes;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    if (!kept.has(l)) continue;
    schedule.places[l].row_tokens = u32(kept.row_pixels[l]);
    schedule.places[l].origin = u32(kept.begin[l] / persistent::kVecBytes);
    schedule.row_stride[l] =
        problem.levels[l].height > 1 ? u32(kept.row_pixels[l] * pixel_vecs) : 0;
  }
  std::int64_t const jobs = schedule.group_jobs.divisor;
  std::int64_t const groups =
      std::max<std::int64_t>(schedule.groups.divisor * problem.batch, 1);  // B may be 0
  schedule.blocks =
      u32(std::clamp<std::int64_t>(clusters, 1, std::max<std::int64_t>(schedule.jobs, 1)));
  persistent::GridRanges const ranges =
      persistent::grid_ranges_of(jobs, groups, schedule.blocks, persistent::value_bytes(problem));
  schedule.group_indices = persistent::divider(u32(ranges.group_indices));
  schedule.index_count = u32(ranges.group_indices * groups);
  schedule.grid_range = u32(ranges.grid_range);
  return schedule;
}

// ---- workspace, prepare, launch

void workspace(Variant const&, Problem const&, Device const&, Arena&) {}

struct ClusterPlan final : Prepared {
  ClusterPlan(Problem const& problem, persistent::QueryOrder const& query_order,
              Device const& device)
      : order(query_order.queries, device), params(make_params(problem, nullptr)) {}
  DeviceArray<std::int32_t> order;  // [Q] queries, or none
  Params params;                    // all but the buffers
  ScheduleParams schedule{};        // the same
  KeptParams kept{};
  Kernels kernels{};
  std::int64_t shared_bytes = 0;
  std::int32_t size = 1;
  bool has_whole_batches = false;
  bool has_f32_inputs = false;
};

bool is_one(Entry const& entry, Problem const& problem) {
  return problem.head_count == 1 && problem.head_dim == entry.rows.channels &&
         problem.value.row == problem.head_dim &&
         std::ranges::all_of(problem.levels, [](Level const& level) {
           return level.width > 1 && level.height > 1;
         });
}

PreparedPtr prepare(Variant const& variant, Problem const& problem, Device const& device,
                    std::pmr::memory_resource* memory) {
  persistent::QueryOrder const order = persistent::query_order(problem);
  PreparedPtr prepared = make_prepared<ClusterPlan>(memory, problem, order, device);
  auto& plan = static_cast<ClusterPlan&>(*prepared);
  Entry const& entry = kTable[variant];
  KeptLevels const kept = kept_levels_of(entry, problem);
  plan.size = entry.size;
  plan.shared_bytes = kept.buffers * kept.bytes + persistent::kLineBytes;
  plan.kernels = kLoad[kTable.index_of(variant)]({.grouped = is_grouped(entry.rows, problem),
                                                  .is_one = is_one(entry, problem),
                                                  .is_pair = entry.size == 2,
                                                  .size = entry.size,
                                                  .shared_bytes = plan.shared_bytes});
  if (plan.kernels.max_clusters == 0) {
    fail(MSDA_ERROR_UNSUPPORTED,
         "{} runs in clusters of {} blocks with {} bytes of shared memory each, of which the "
         "device, {}, runs none at a time",
         variant.id, entry.size, declared_bytes(entry.rows.points) + plan.shared_bytes,
         device.name);
  }
  std::int64_t const clusters =
      std::min<std::int64_t>(plan.kernels.max_clusters, device.sm_count / entry.size);
  plan.kept = kept_params(entry, problem, kept);
  plan.schedule = cluster_schedule(entry, problem, order, device, kept, clusters);
  plan.schedule.order = plan.order.data();
  std::int64_t const batch = batch_of(layout_for(entry.rows, problem), entry.rows.points);
  plan.has_whole_batches = problem.point_total % batch == 0;
  plan.has_f32_inputs =
      problem.coord_dtype == MSDA_DTYPE_F32 && problem.weight_dtype == MSDA_DTYPE_F32;
  return prepared;
}

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

void launch(Variant const&, Launch const& launch) {
  auto const& plan = static_cast<ClusterPlan const&>(*launch.prepared);
  if (plan.schedule.jobs == 0) return;
  Params params = plan.params;
  set_buffers(params, launch.call);
  bool const aligned = is_aligned(params.value);
  ScheduleParams schedule = plan.schedule;
  schedule.wide_inputs =
      plan.has_whole_batches && is_aligned(params.coord) && is_aligned(params.weight);
  schedule.aligned_output = is_aligned(params.output);
  launch_kernel(plan.kernels.rows[aligned][plan.has_f32_inputs && schedule.wide_inputs],
                {.blocks = std::int64_t{schedule.blocks} * plan.size,
                 .threads = kThreads,
                 .shared_bytes = static_cast<std::size_t>(plan.shared_bytes),
                 .cluster_blocks = plan.size,
                 .overlaps_previous = true},
                static_cast<cudaStream_t>(launch.call.stream), params, schedule, plan.kept);
}

}  // namespace

extern const Family kFamily;
const Family kFamily = {"cluster", kTable.variants(), reject, cost,
                        workspace, prepare,           launch, numbers_of};

}  // namespace msda::cluster
