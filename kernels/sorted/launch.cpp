// The sorted family: backward without atomics. Points are sorted by tile, tiles are summed in the
// order of their points.

#include "kernels/points/launch.h"
#include "core/device_array.h"
#include "kernels/points/plan.h"
#include "kernels/sorted/plan.h"

#include <algorithm>

namespace msda::sorted {
namespace {

// Loads the kernels of each row of variants.inc.
constexpr Kernels (*kLoad[])(KernelOptions) = {
#define MSDA_VARIANT(type, ...) load_kernels<ValueType::type>,
#include "rows/sorted.inc"
#undef MSDA_VARIANT
};

// ---- prepare

// Whether 32 bits count the rows of grad_output of a batch item in vecs, as GradRows::row_of()
// does.
bool row_vecs_fit(Problem const& problem) {
  std::int64_t const last = (problem.query_count - 1) * problem.output.row;
  return problem.output.row >= 0 &&
         last / (kVecBytes / dtype_bytes(problem.output_dtype)) <= std::int64_t{UINT32_MAX};
}

struct SortedPlan final : Prepared {
  SortedPlan(Variant const& variant, Problem const& problem, Device const& device)
      : planned(problem, device),
        far_levels(far_levels_of(problem), device),
        levels(planned.tiling.levels, device),
        sum_levels(planned.tiling.sum_levels, device),
        point_levels(points::point_levels(problem), device),
        params(make_params(problem, far_levels.data())),
        value(value_params(problem, planned.tiling, planned.bins)),
        has_other_tokens(points::has_other_tokens(problem)),
        sm_count(device.sm_count) {
    value.levels = levels.data();
    value.sum_levels = sum_levels.data();
    value.point_levels = point_levels.data();
    bool const same_types = problem.output_dtype == problem.value_dtype;
    kernels =
        kLoad[kTable.index_of(variant)]({.head_dim = i32(problem.head_dim),
                                         .points = problem.point_total,
                                         .even_heads = heads_together(problem.head_count) == 2,
                                         .same_types = same_types,
                                         .fused = problem.fused(),
                                         .boxes = problem.reference_dim == 4});
    has_output_vectors = same_types &&
                         strides_are_multiples(problem.output, problem.output_dtype, 16) &&
                         row_vecs_fit(problem);
    has_row_vectors = has_output_vectors && value_strides_are_multiples(problem, 16) &&
                      row_stride_fits(problem.value, problem.value_dtype) &&
                      gradients_are_near(problem);
    std::int64_t const row_bytes = problem.value.row * dtype_bytes(problem.value_dtype);
    has_short_heads =
        has_row_vectors && (problem.token_count - 1) * row_bytes <= std::int64_t{UINT32_MAX};
    has_plain_sides = std::ranges::all_of(problem.levels, [](Level const& level) {
      return level.height <= kLargestPlainSide && level.width <= kLargestPlainSide;
    });
    Passes const& passes = planned.passes;
    std::int64_t const value_passes =
        divide_up(problem.batch * problem.head_count, std::max<std::int64_t>(passes.heads, 1));
    std::int64_t const point_passes =
        divide_up(problem.batch * problem.query_count, std::max<std::int64_t>(passes.queries, 1));
    launch_count = i32(value_passes * 4 + point_passes * (problem.fused() ? 2 : 1));
  }
  Planned planned;
  DeviceArray<LevelParams> far_levels;
  DeviceArray<TileLevel> levels;
  DeviceArray<SumLevel> sum_levels;
  DeviceArray<PointLevel> point_levels;
  Params params;      // all but the buffers
  ValueParams value;  // all but the arrays
  Kernels kernels{};
  bool has_other_tokens;
  bool has_output_vectors = false;  // as far as strides say
  bool has_row_vectors = false;     // of the values, too
  bool has_short_heads = false;     // bytes from a head's first token to its last fit 32 bits
  bool has_plain_sides = false;
  std::int32_t sm_count;
};

// ---- launch

// A call of a plan, on its stream.
struct CallOfPlan {
  SortedPlan const& plan;
  Problem const& problem;
  Params params;
  std::byte* workspace;  // of one pass after the other
  cudaStream_t stream;

  explicit CallOfPlan(Launch const& launch)
      : plan(static_cast<SortedPlan const&>(*launch.prepared)),
        problem(launch.problem),
        params(with_buffers(plan.params, launch.call)),
        workspace(launch.call.workspace),
        stream(static_cast<cudaStream_t>(launch.call.stream)) {}

  bool has_coord_pairs() const {
    return are_pairs(params.coord, params.coord_strides, params.coord_dtype);
  }
  bool has_narrow_coords() const { return params.coord_dtype != MSDA_DTYPE_F32; }
  // As Input has it, but offsets may have 16 bits.
  bool has_plain_input() const {
    if (!problem.fused()) return !has_narrow_coords() && has_coord_pairs();
    return has_coord_pairs() && params.reference_dtype == MSDA_DTYPE_F32 &&
           is_aligned(params.reference, params.reference_dim * 4);
  }
  // Plain points are whole rows of a warp, on maps of usual sides.
  PointInputs point_inputs() const {
    bool const is_plain =
        has_plain_input() && kWarp % problem.point_total == 0 && plan.has_plain_sides;
    if (!is_plain) return kAnyPoints;
    return has_narrow_coords() ? kNarrowPoints : kPlainPoints;
  }
  bool has_vectors() const {
    return plan.has_row_vectors && is_aligned(params.value, 16) &&
           is_aligned(params.grad_output, 16);
  }
  bool has_plain_rows() const {
    return has_vectors() && plan.has_short_heads && fills_lanes(params.head_dim) &&
           has_plain_input();
  }
  // A block's queries are of one batch item, and all rows are of one launch.
  bool has_paired_rows() const {
    bool const is_one_pass = plan.planned.passes.queries >= params.batch * params.query_count;
    bool const has_kernel = plan.kernels.paired[has_narrow_coords()].handle != nullptr;
    return has_kernel && has_plain_rows() && params.token_count > 0 &&
           params.query_count >= kMinPairedQueries && (!problem.fused() || is_one_pass);
  }
  // For rows that are not paired.
  PointRows point_rows() const {
    if (!has_vectors() || params.token_count == 0) return kElementRows;
    bool const is_plain = has_plain_rows() && !has_narrow_coords();
    return is_plain && plan.kernels.point_rows[kPlainRows] > 0 ? kPlainRows : kVectorRows;
  }
  // The tables and arrays of the points of the queries from `first` on, as many as a pass has.
  PointParams point_params(std::int64_t first) const {
    PointParams points{};
    points.point_levels = plan.point_levels.data();
    points.first_query = first;
    points.queries =
        std::min(plan.planned.passes.queries, params.batch * params.query_count - first);
    Arena arena(workspace);
    take_arrays(points, problem, arena);
    look_at_buffers(points, params);
    if (staged_groups() > 0) points.staged = nullptr;
    return points;
  }
  // The groups of a fused row's points that are staged in shared memory.
  std::int64_t staged_groups() const {
    std::int64_t const groups =
        divide_up(params.point_total, plan.kernels.group_points[point_rows()]);
    return problem.fused() && groups <= kStagedPoints ? groups : 0;
  }
};

// The launches of a pass over heads: bin, list, sum, join.
void sum_pass(CallOfPlan const& call, ValueParams const& value) {
  Kernels const& kernels = call.plan.kernels;
  Bins const& bins = call.plan.planned.bins;
  std::int64_t const bin_blocks = value.heads * bins.tile_ranges * bins.chunks;
  launch_overlapping(
      kernels.bin[call.point_inputs()],
      {.blocks = bin_blocks, .threads = kBinThreads, .shared_bytes = bins.shared_bytes},
      call.stream, call.params, value);
  launch_overlapping(
      kernels.list_segments,
      {.blocks = value.heads * divide_up(value.tiles, kWarp), .threads = kListWarps * kWarp},
      call.stream, value);
  bool const vectors = call.plan.has_output_vectors && is_aligned(call.params.grad_output, 16);
  bool const has_sparse = value.sum_blocks < value.tiles;
  launch_overlapping(
      has_sparse ? kernels.sum_sparse[vectors] : kernels.sum[vectors],
      {.blocks = value.heads * (std::int64_t{value.sum_blocks} + value.max_parts) * value.slices,
       .threads = kSumThreads,
       .shared_bytes = has_sparse ? kernels.sparse_shared_bytes : kernels.sum_shared_bytes},
      call.stream, call.params, value);
  launch_overlapping(
      kernels.join,
      {.blocks = divide_up(std::int64_t{value.heads} * value.tiles, kJoinThreads / kWarp),
       .threads = kJoinThreads},
      call.stream, call.params, value);
}

void launch_value_gradient(CallOfPlan const& call) {
  Params const& p = call.params;
  if (p.grad_value == nullptr) return;
  Planned const& planned = call.plan.planned;
  bool const has_points = planned.bins.points > 0 && planned.tiling.tiles > 0;
  if (!has_points || call.plan.has_other_tokens) {
    points::clear(p.grad_value, value_count(call.problem), p.grad_value_dtype, call.stream);
  }
  if (!has_points) return;
  std::int64_t const heads = p.batch * p.head_count;
  for (std::int64_t first = 0; first < heads; first += planned.passes.heads) {
    ValueParams value = call.plan.value;
    value.first_head = first;
    value.heads = i32(std::min(planned.passes.heads, heads - first));
    value.coord_pairs = call.has_coord_pairs();
    value.aligned_result = is_aligned(p.grad_value, 4 * dtype_bytes(p.grad_value_dtype));
    Arena arena(call.workspace);
    take_arrays(value, call.problem, planned.bins, arena);
    sum_pass(call, value);
  }
}

void launch_paired_points(CallOfPlan const& call, PointParams const& points) {
  Kernels const& kernels = call.plan.kernels;
  PairedLaunch launch =
      paired_launch(call.params, kernels.paired_rows, kernels.paired_points, call.plan.sm_count);
  launch.params.point_levels = points.point_levels;
  launch.params.by_pixel = points.by_pixel;
  launch.params.grad_coord_pairs = points.grad_coord_pairs;
  launch_overlapping(kernels.paired[call.has_narrow_coords()],
                     {.blocks = launch.blocks, .threads = kPointThreads}, call.stream, call.params,
                     launch.params);
}

void launch_points(CallOfPlan const& call, PointParams points) {
  Kernels const& kernels = call.plan.kernels;
  std::int64_t const rows = points.queries * call.params.head_count;
  PointRows const loads = call.point_rows();
  std::int64_t const block_rows = kernels.point_rows[loads];
  points.rows_of_block = i32(block_rows * iterations_of_block(divide_up(rows, block_rows),
                                                              kMaxIterations, call.plan.sm_count));
  points.heads_together = u32(heads_together(call.params.head_count));
  points.query_stride = u32(block_rows) / points.heads_together;
  launch_overlapping(kernels.points[loads],
                     {.blocks = divide_up(rows, points.rows_of_block),
                      .threads = kPointThreads,
                      .shared_bytes = call.staged_groups() * 2 * kPointThreads * 4},
                     call.stream, call.params, points);
}

// Passes over queries: points, and the sums over heads where grad_reference is wanted.
void launch_point_gradients(CallOfPlan const& call) {
  Params const& p = call.params;
  if (!p.wants_points()) return;
  std::int64_t const queries = p.batch * p.query_count;
  if (!has_gradients(call.problem)) {
    return clear_point_gradients(call.plan.kernels.engine, p, call.stream);
  }
  for (std::int64_t first = 0; first < queries;) {
    PointParams const points = call.point_params(first);
    if (call.has_paired_rows()) {
      launch_paired_points(call, points);
      if (!call.problem.fused()) return;  // of all passes
    } else {
      launch_points(call, points);
    }
    sum_references(call.plan.kernels.engine, p, points, call.stream);
    first += points.queries;
  }
}

void launch(Variant const&, Launch const& launch) {
  CallOfPlan const call(launch);
  launch_value_gradient(call);
  launch_point_gradients(call);
}

}  // namespace

extern const FamilyCode kCode = {prepare<SortedPlan>, launch};

}  // namespace msda::sorted
