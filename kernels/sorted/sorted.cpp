// The sorted family: backward without atomics. Points are sorted by tile, tiles are summed in the
// order of their points.

#include "kernels/sorted/sorted.h"

#include "core/cuda.h"
#include "core/dtype.h"
#include "core/family.h"
#include "core/tensor_sizes.h"
#include "kernels/common/device_array.h"
#include "kernels/common/divide_up.h"
#include "kernels/common/elements.h"
#include "kernels/common/make_params.h"
#include "kernels/common/row_limits.h"
#include "kernels/common/work.h"
#include "kernels/sorted/point_blocks.h"
#include "kernels/sorted/runs.h"
#include "kernels/sorted/sorted_costs.h"
#include "kernels/sorted/tiles.h"

#include <algorithm>

namespace msda::sorted {
namespace {

// What the id says.
struct Entry {
  Kernels (*load)(KernelOptions);
};
constexpr VariantTable kTable({
#define MSDA_VARIANT(type, revision, sm, architecture, ...)                                  \
  VariantRow<Entry>{{.id = "sorted.sm" #sm "." #type "@" #revision,                          \
                     .value_dtype = dtype_of(ValueType::type),                               \
                     .sm_min = sm,                                                           \
                     .sm_max = last_sm(#architecture, 0) __VA_OPT__(, .__VA_ARGS__ = true)}, \
                    {load_kernels<ValueType::type>}},
#include "rows/sorted.inc"
#undef MSDA_VARIANT
});

// ---- reject

constexpr std::int64_t kMaxIndex = INT32_MAX;
constexpr std::int64_t kMaxTiles = std::int64_t{1} << 26;  // of a head

// Tokens, points and tiles of a head are counted in 32 bits.
bool sizes_fit(Problem const& problem) {
  if (problem.token_count > kMaxIndex || problem.query_count > kMaxIndex) return false;
  if (problem.point_total > 0 && problem.query_count > kMaxIndex / problem.point_total) {
    return false;
  }
  double cells = 0;
  for (Level const& level : problem.levels) {
    cells += static_cast<double>(level.width + 1) * static_cast<double>(level.height + 1);
  }
  return cells < static_cast<double>(kMaxTiles) && problem.batch * problem.head_count < kMaxIndex &&
         problem.batch * problem.query_count < kMaxIndex;
}

bool levels_fit(Problem const& problem) {
  return std::ranges::all_of(problem.levels, [](Level const& level) {
    return level.height <= kLargestSide && level.width <= kLargestSide;
  });
}

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  if (device.is_cpu()) return Reason::kDeviceIsCpu;
  if (!variant.runs_on(device)) return Reason::kComputeCapability;
  if (problem.value_dtype != variant.value_dtype) return Reason::kValueDtype;
  if (!problem.backward()) return Reason::kOperation;
  if (problem.levels_overlap) return Reason::kOverlap;
  if (problem.coord_dtype == MSDA_DTYPE_F64) return Reason::kCoordDtype;
  if (problem.weight_dtype == MSDA_DTYPE_F64) return Reason::kWeightDtype;
  if (device.sm_count_limit != 0) return Reason::kSmLimit;
  std::int64_t const D = problem.head_dim;
  if (D == 0 || D > kMaxHeadDim || D % kChannelsOfLane != 0) return Reason::kHeadDim;
  if (!levels_fit(problem)) return Reason::kLevels;
  if (!sizes_fit(problem)) return Reason::kTooLarge;
  return device.shared_bytes_per_block < kLeastSharedBytes ? Reason::kSharedMemory : Reason::kNone;
}

double cost(Variant const& variant, Problem const& problem, Device const& device) {
  return predicted_us(Costs{}, variant, problem, device);
}

// ---- workspace, prepare

struct Planned {
  Tiling tiling;
  Bins bins;
  Runs runs;

  Planned(Problem const& problem, Device const& device)
      : tiling(make_tiling(problem)),
        bins(make_bins(problem, tiling, device)),
        runs(make_runs(problem, tiling, bins, device)) {}
};

void workspace(Variant const&, Problem const& problem, Device const& device, Arena& arena) {
  Planned const planned(problem, device);
  take_workspace(problem, planned.tiling, planned.bins, planned.runs, arena);
}

// Tokens that are pixels of no level are not among what the tiles write.
bool has_other_tokens(Problem const& problem) {
  std::int64_t pixels = 0;
  for (Level const& level : problem.levels) pixels += level.height * level.width;
  return pixels != problem.token_count;
}

struct SortedPlan final : Prepared {
  SortedPlan(Problem const& problem, Device const& device)
      : planned(problem, device),
        far_levels(problem, device),
        levels(planned.tiling.levels, device),
        sum_levels(planned.tiling.sum_levels, device),
        level_of_point(planned.tiling.level_of_point, device),
        point_levels(make_point_levels(problem), device),
        params(make_params(problem, far_levels.data())),
        value(value_params(problem, planned.tiling, planned.bins)) {
    value.levels = levels.data();
    value.sum_levels = sum_levels.data();
    value.level_of_point = level_of_point.data();
  }
  Planned planned;
  FarLevels far_levels;
  DeviceArray<TileLevel> levels;
  DeviceArray<SumLevel> sum_levels;
  DeviceArray<std::int32_t> level_of_point;
  DeviceArray<PointLevel> point_levels;
  Params params;      // all but the buffers
  ValueParams value;  // all but the arrays
  Kernels kernels{};
  bool has_other_tokens = false;
  bool has_output_vectors = false;  // as far as strides say
  bool has_value_vectors = false;
  bool has_short_heads = false;  // bytes from a head's first token to its last fit 32 bits
  bool has_coord_pairs = false;
  bool has_plain_sides = false;
  std::int32_t sm_count = 1;
};

// The rows of grad_output of a batch item's queries, as sum_tiles.cuh places them.
bool row_steps_fit(Problem const& problem) {
  std::int64_t const last = (problem.query_count - 1) * problem.output.row;
  return problem.output.row >= 0 &&
         last / (kRowStepBytes / dtype_bytes(problem.output_dtype)) <= std::int64_t{UINT32_MAX};
}

PreparedPtr prepare(Variant const& variant, Problem const& problem, Device const& device,
                    std::pmr::memory_resource* memory) {
  PreparedPtr prepared = make_prepared<SortedPlan>(memory, problem, device);
  auto& plan = static_cast<SortedPlan&>(*prepared);
  plan.kernels = kTable[variant].load({.head_dim = static_cast<std::int32_t>(problem.head_dim),
                                       .points = problem.point_total,
                                       .even_heads = heads_together(problem.head_count) == 2,
                                       .same_types = problem.output_dtype == problem.value_dtype});
  plan.has_other_tokens = has_other_tokens(problem);
  plan.has_output_vectors = problem.output_dtype == problem.value_dtype &&
                            strides_are_multiples(problem.output, problem.output_dtype, 16) &&
                            row_steps_fit(problem);
  plan.has_value_vectors = plan.has_output_vectors && value_strides_are_multiples(problem, 16) &&
                           row_stride_fits(problem.value, problem.value_dtype);
  plan.has_short_heads = plan.has_value_vectors && (problem.token_count - 1) * problem.value.row *
                                                           dtype_bytes(problem.value_dtype) <=
                                                       std::int64_t{UINT32_MAX};
  plan.has_coord_pairs = (problem.coord.batch | problem.coord.row | problem.coord.head) % 2 == 0;
  plan.has_plain_sides = std::ranges::all_of(problem.levels, [](Level const& level) {
    return level.height <= kLargestPlainSide && level.width <= kLargestPlainSide;
  });
  plan.sm_count = device.sm_count;
  Runs const& runs = plan.planned.runs;
  std::int64_t const value_runs =
      divide_up(problem.batch * problem.head_count, std::max<std::int64_t>(runs.heads, 1));
  std::int64_t const point_runs =
      divide_up(problem.batch * problem.query_count, std::max<std::int64_t>(runs.queries, 1));
  plan.launch_count = static_cast<std::int32_t>(value_runs * (problem.fused() ? 5 : 4) +
                                                point_runs * (problem.fused() ? 3 : 1));
  return prepared;
}

// ---- launch

bool is_aligned(const void* pointer, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

// A call of a plan, on its stream.
struct CallOfPlan {
  SortedPlan const& plan;
  Problem const& problem;
  Params params;
  std::byte* workspace;
  cudaStream_t stream;

  explicit CallOfPlan(Launch const& launch)
      : plan(static_cast<SortedPlan const&>(*launch.prepared)),
        problem(launch.problem),
        params(plan.params),
        workspace(nullptr),
        stream(static_cast<cudaStream_t>(launch.call.stream)) {
    set_buffers(params, launch.call);
    Arena arena(launch.call.workspace);
    Planned const& planned = plan.planned;
    workspace = take_workspace(problem, planned.tiling, planned.bins, planned.runs, arena);
  }

  void clear(void* array, std::int64_t elements, msda_dtype dtype) const {
    if (array == nullptr || elements == 0) return;
    auto const bytes = static_cast<std::size_t>(elements * dtype_bytes(dtype));
    cuda::check(cudaMemsetAsync(array, 0, bytes, stream), "clearing a gradient");
  }
  std::uintptr_t pair_bytes() const {
    return 2 * static_cast<std::uintptr_t>(dtype_bytes(params.coord_dtype));
  }
  bool has_coord_pairs() const {
    return plan.has_coord_pairs && is_aligned(params.coord, pair_bytes());
  }
  // Sampled, with coordinates that are pairs of F32.
  bool has_plain_input() const {
    return !problem.fused() && params.coord_dtype == MSDA_DTYPE_F32 && has_coord_pairs();
  }
  // Of the sorting: a warp's points are whole rows, too, on maps of usual sides.
  bool has_plain_points() const {
    return has_plain_input() && kWarp % problem.point_total == 0 && plan.has_plain_sides;
  }
  bool has_vectors() const {
    return plan.has_value_vectors && is_aligned(params.value, 16) &&
           is_aligned(params.grad_output, 16);
  }
  bool has_plain_rows() const {
    return has_vectors() && plan.has_short_heads && fills_lanes(params.head_dim) &&
           has_plain_input();
  }
  // A block's queries are of one batch item.
  bool has_paired_rows() const {
    return plan.kernels.paired_points > 0 && has_plain_rows() &&
           params.query_count >= kLeastPairedQueries;
  }
  // Of rows that are not paired.
  PointInput point_input() const {
    if (!has_vectors()) return kElementRows;
    return has_plain_rows() && plan.kernels.paired_points == 0 ? kPlainRows : kVectorRows;
  }
  void compute_weights(float* weights, std::int64_t first, std::int64_t rows, bool by_head) const {
    if (weights == nullptr) return;
    launch_kernel(plan.kernels.softmax,
                  {.blocks = divide_up(rows, kSmallThreads / kSoftmaxLanes),
                   .threads = kSmallThreads,
                   .overlaps_previous = true},
                  stream, params, SoftmaxParams{weights, first, rows, by_head});
  }
};

void sum_run(CallOfPlan const& call, ValueParams const& value) {
  Kernels const& kernels = call.plan.kernels;
  Bins const& bins = call.plan.planned.bins;
  std::int64_t const bin_blocks = value.heads * bins.windows * bins.chunks;
  auto const shared_bytes = static_cast<std::size_t>(bins.shared_bytes);
  call.compute_weights(const_cast<float*>(value.weights), value.first_head,
                       value.heads * call.problem.query_count, true);
  bool const plain = call.has_plain_points();
  launch_kernel(kernels.place[plain],
                {.blocks = bin_blocks,
                 .threads = kBinThreads,
                 .shared_bytes = shared_bytes,
                 .overlaps_previous = true},
                call.stream, call.params, value);
  launch_kernel(kernels.list_segments,
                {.blocks = value.heads * divide_up(value.tiles, kWarp),
                 .threads = kScanParts * kWarp,
                 .overlaps_previous = true},
                call.stream, value);
  bool const vectors = call.plan.has_output_vectors && is_aligned(call.params.grad_output, 16);
  bool const has_sparse = value.sum_blocks < value.tiles;
  launch_kernel(
      has_sparse ? kernels.sum_sparse[vectors] : kernels.sum[vectors],
      {.blocks = value.heads * (std::int64_t{value.sum_blocks} + value.max_pieces) * value.slices,
       .threads = kSumThreads,
       .shared_bytes = static_cast<std::size_t>(has_sparse ? kernels.sparse_shared_bytes
                                                           : kernels.sum_shared_bytes),
       .overlaps_previous = true},
      call.stream, call.params, value);
  launch_kernel(
      kernels.join,
      {.blocks = divide_up(std::int64_t{value.heads} * value.tiles, kSmallThreads / kWarp),
       .threads = kSmallThreads,
       .overlaps_previous = true},
      call.stream, call.params, value);
}

void launch_value_gradient(CallOfPlan const& call) {
  Params const& p = call.params;
  if (p.grad_value == nullptr) return;
  Planned const& planned = call.plan.planned;
  bool const has_points = planned.bins.points > 0 && planned.tiling.tiles > 0;
  if (!has_points || call.plan.has_other_tokens) {
    call.clear(p.grad_value, p.batch * p.token_count * p.head_count * p.head_dim,
               p.grad_value_dtype);
  }
  if (!has_points) return;
  std::int64_t const heads = p.batch * p.head_count;
  for (std::int64_t first = 0; first < heads; first += planned.runs.heads) {
    ValueParams value = call.plan.value;
    value.first_head = first;
    value.heads = static_cast<std::int32_t>(std::min(planned.runs.heads, heads - first));
    value.coord_pairs = call.has_coord_pairs();
    value.aligned_result =
        is_aligned(p.grad_value, 4 * static_cast<std::uintptr_t>(dtype_bytes(p.grad_value_dtype)));
    Arena arena(call.workspace);
    take_arrays(value, call.problem, planned.bins, arena);
    sum_run(call, value);
  }
}

void clear_point_gradients(CallOfPlan const& call) {
  Params const& p = call.params;
  std::int64_t const queries = p.batch * p.query_count;
  std::int64_t const points = queries * p.head_count * p.point_total;
  call.clear(p.grad_coord, 2 * points, p.coord_dtype);
  call.clear(p.grad_weight, points, p.weight_dtype);
  call.clear(p.grad_reference, queries * p.level_count * p.reference_dim, p.coord_dtype);
}

void launch_paired_points(CallOfPlan const& call) {
  Params const& p = call.params;
  PairedLaunch launch = paired_launch(p, call.plan.kernels, call.plan.sm_count);
  launch.params.point_levels = call.plan.point_levels.data();
  launch.params.grad_coord_pairs = is_aligned(p.grad_coord, call.pair_bytes());
  launch_kernel(call.plan.kernels.paired,
                {.blocks = launch.blocks, .threads = kPointThreads, .overlaps_previous = true},
                call.stream, p, launch.params);
}

void launch_point_run(CallOfPlan const& call, PointParams& points) {
  Kernels const& kernels = call.plan.kernels;
  std::int64_t const rows = points.queries * call.params.head_count;
  call.compute_weights(points.weights, points.first_query, rows, false);
  points.coord_pairs = call.has_coord_pairs();
  points.grad_coord_pairs = is_aligned(call.params.grad_coord, call.pair_bytes());
  PointInput const input = call.point_input();
  std::int64_t const block_rows = kernels.point_rows[input];
  points.rows_of_block = block_rows * rounds_of_block(divide_up(rows, block_rows),
                                                      kMaxRoundsOfBlock, call.plan.sm_count);
  points.heads_together = static_cast<std::uint32_t>(heads_together(call.params.head_count));
  points.step_queries = static_cast<std::uint32_t>(block_rows) / points.heads_together;
  if (call.params.token_count == 0) {  // no values to load; fused: a NaN softmax is to be seen
    call.clear(points.raw, 3 * rows * call.params.point_total, MSDA_DTYPE_F32);
  } else {
    launch_kernel(kernels.points[input],
                  {.blocks = divide_up(rows, points.rows_of_block),
                   .threads = kPointThreads,
                   .overlaps_previous = true},
                  call.stream, call.params, points);
  }
  if (points.raw == nullptr) return;
  launch_kernel(kernels.finish,
                {.blocks = divide_up(points.queries, kSmallThreads / kWarp),
                 .threads = kSmallThreads,
                 .overlaps_previous = true},
                call.stream, call.params, points);
}

void launch_point_gradients(CallOfPlan const& call) {
  Params const& p = call.params;
  if (p.grad_coord == nullptr && p.grad_weight == nullptr && p.grad_reference == nullptr) return;
  std::int64_t const queries = p.batch * p.query_count;
  bool const has_points = queries * p.head_count * p.point_total > 0;
  if (!has_points || (p.token_count == 0 && !call.problem.fused())) {
    clear_point_gradients(call);
    return;
  }
  if (call.has_paired_rows()) {
    launch_paired_points(call);
    return;
  }
  for (std::int64_t first = 0; first < queries; first += call.plan.planned.runs.queries) {
    PointParams points{};
    points.level_of_point = call.plan.level_of_point.data();
    points.point_levels = call.plan.point_levels.data();
    points.first_query = first;
    points.queries = std::min(call.plan.planned.runs.queries, queries - first);
    Arena arena(call.workspace);
    take_arrays(points, call.problem, arena);
    launch_point_run(call, points);
  }
}

void launch(Variant const&, Launch const& launch) {
  CallOfPlan const call(launch);
  launch_value_gradient(call);
  launch_point_gradients(call);
}

}  // namespace

extern const Family kFamily;
const Family kFamily = {"sorted", kTable.variants(), reject, cost, workspace, prepare, launch};

}  // namespace msda::sorted
