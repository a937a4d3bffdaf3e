// The direct family on a device: what a plan prepares, and the launches of its calls.

#include "kernels/attention/launch.h"
#include "core/device_array.h"
#include "kernels/direct/plan.h"

#include <algorithm>
#include <vector>

namespace msda::direct {
namespace {

// Loads the kernels of each row of variants.inc.
constexpr Kernels (*kLoad[])(KernelOptions) = {
#define MSDA_VARIANT(type, channels, points, ...) load_kernels<ValueType::type, channels, points>,
#include "rows/direct.inc"
#undef MSDA_VARIANT
};

struct DirectPlan final : Prepared {
  DirectPlan(Variant const& variant, Problem const& problem, Device const& device)
      : far_levels(far_levels_of(problem), device),
        params(make_params(problem, far_levels.data())),
        order(problem, device),
        tiles(problem.backward() ? order.tiles.levels : std::vector<LevelTiles>(), device),
        kernels(kLoad[kTable.index_of(variant)](
            {.backward = problem.backward(),
             .fused = problem.fused(),
             .wide = problem.points_are_f64() || problem.weight_dtype == MSDA_DTYPE_F64,
             .nearest = problem.nearest(),
             .split = problem.head_count % 2 == 1})),
        attention(attention::prepare(problem, device, *this)),
        has_aligned_strides(values_are_aligned(problem)) {
    order.bins.levels = tiles.data();
    if (device.sm_count_limit != 0) max_blocks = device.sm_count;
    if (problem.backward()) {
      // Kernels of the points, of the values for each run of heads, and the rounding of sums.
      auto const rounds = static_cast<std::int64_t>(order.tiles.rounds.size());
      std::int64_t const of_values = (3 + kTurns * rounds) * order.runs(problem);
      launch_count =
          i32(std::min<std::int64_t>(of_values, INT32_MAX - 2)) + (needs_sums(problem) ? 2 : 1);
      return;
    }
    bool const is_generic = kTable[variant].channels == dany;
    std::int64_t const rows = row_count(problem);
    forward_blocks = divide_up(is_generic ? rows * problem.head_dim : rows, kernels.block_items);
    if (is_generic) forward_blocks = std::min(forward_blocks, max_blocks);
  }
  DeviceArray<LevelParams> far_levels;
  Params params;  // all but the buffers
  Order order;    // backward
  DeviceArray<LevelTiles> tiles;
  Kernels kernels;
  attention::Writer attention;
  bool has_aligned_strides;
  std::int64_t forward_blocks = 0;
  // The generic kernels walk over what is more in strides of the grid; with a limit SMs have one.
  std::int64_t max_blocks = kMaxBlocks;
};

bool buffers_are_aligned(Params const& p) {
  return is_aligned(p.value, 16) && is_aligned(p.coord, 16) && is_aligned(p.weight, 16) &&
         is_aligned(p.reference, 16) && is_aligned(p.output, 16);
}

LaunchOptions grid_of(DirectPlan const& plan, std::int64_t items, std::int64_t of_block) {
  return {.blocks = std::min(divide_up(items, of_block), plan.max_blocks), .threads = kThreads};
}

// Adds what the points of a run of heads give to the values.
void add_heads(DirectPlan const& plan, Params const& p, BinParams bins, cudaStream_t stream) {
  Kernels const& kernels = plan.kernels;
  clear(bins.places, bins.heads * bins.place_count * std::int64_t{sizeof(std::int64_t)},
        "clearing counts", stream);
  LaunchOptions const by_chunk = grid_of(plan, bins.heads * bins.chunks, kWarpsPerBlock);
  launch_overlapping(kernels.count_tiles, by_chunk, stream, p, bins);
  launch_overlapping(kernels.sum_counts, grid_of(plan, bins.heads, 1), stream, bins);
  launch_overlapping(kernels.list_points, by_chunk, stream, p, bins);
  for (TileRange const& round : plan.order.tiles.rounds) {
    bins.added_first = round.begin;
    bins.added_tiles = round.end - round.begin;
    for (int turn = 0; turn < kTurns; ++turn) {
      launch_overlapping(kernels.add_tiles,
                         grid_of(plan, bins.heads * bins.added_tiles, kWarpsPerBlock), stream, p,
                         bins, turn);
    }
  }
}

void launch_value_gradient(DirectPlan const& plan, Problem const& problem, Params const& p,
                           BinParams bins, cudaStream_t stream) {
  std::int64_t const elements = value_count(problem);
  if (p.grad_value == nullptr || elements == 0) return;
  void* const sums = p.sums != nullptr ? p.sums : p.grad_value;
  clear(sums, sum_bytes(problem), "clearing grad_value", stream);
  std::int64_t const heads = p.batch * p.head_count;
  for (std::int64_t first = 0; first < heads && bins.place_count > 0;
       first += plan.order.run_heads) {
    bins.first_head = first;
    bins.heads = std::min(plan.order.run_heads, heads - first);
    add_heads(plan, p, bins, stream);
  }
  if (p.sums == nullptr) return;
  launch_overlapping(plan.kernels.store_sums, grid_of(plan, elements, kThreads), stream, p);
}

void launch(Variant const&, Launch const& launch) {
  auto const& plan = static_cast<DirectPlan const&>(*launch.prepared);
  auto const stream = static_cast<cudaStream_t>(launch.call.stream);
  Params params = with_buffers(plan.params, launch.call);
  if (!launch.problem.backward()) {
    attention::launch(plan.attention, params, stream);
    bool const aligned = plan.has_aligned_strides && buffers_are_aligned(params);
    launch_overlapping(plan.kernels.forward[aligned],
                       {.blocks = plan.forward_blocks, .threads = kThreads}, stream, params);
    return;
  }
  Arena arena(launch.call.workspace);
  params.sums = take_sums(launch.problem, arena);
  BinParams bins = plan.order.bins;
  take_arrays(bins, plan.order.run_heads, arena);
  launch_value_gradient(plan, launch.problem, params, bins, stream);
  if (!params.wants_points()) return;
  std::int64_t const queries = params.batch * params.query_count;
  if (params.head_count == 0) {  // of the gradients of points only this one has elements then
    std::int64_t const elements = queries * params.level_count * params.reference_dim;
    clear(params.grad_reference, elements * dtype_bytes(params.reference_dtype),
          "clearing grad_reference", stream);
  }
  std::int64_t const rows = queries * params.head_count;
  launch_overlapping(plan.kernels.of_points, grid_of(plan, rows, kWarpsPerBlock), stream, params);
}

}  // namespace

extern const FamilyCode kCode = {prepare<DirectPlan>, launch};

}  // namespace msda::direct
