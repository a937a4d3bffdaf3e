// The atomic family: backward by atomic additions, for problems that ask for no determinism.

#include "kernels/points/launch.h"
#include "core/device_array.h"
#include "kernels/atomic/plan.h"
#include "kernels/points/plan.h"

#include <algorithm>

namespace msda::atomic {
namespace {

// Loads the kernels of each row of variants.inc.
constexpr Kernels (*kLoad[])(KernelOptions) = {
#define MSDA_VARIANT(type, ...) load_kernels<ValueType::type>,
#include "rows/atomic.inc"
#undef MSDA_VARIANT
};

// ---- prepare

struct AtomicPlan final : Prepared {
  AtomicPlan(Variant const& variant, Problem const& problem, Device const& device)
      : far_levels(far_levels_of(problem), device),
        point_levels(points::point_levels(problem), device),
        params(make_params(problem, far_levels.data())) {
    bool const same_types = problem.output_dtype == problem.value_dtype;
    kernels = kLoad[kTable.index_of(variant)](
        {.head_dim = i32(problem.head_dim), .same_types = same_types});
    has_vectors = same_types && value_strides_are_multiples(problem, 16) &&
                  row_stride_fits(problem.value, problem.value_dtype) &&
                  strides_are_multiples(problem.output, problem.output_dtype, 16);
    add.points.point_levels = point_levels.data();
    add.points.queries = problem.batch * problem.query_count;
    add.points.heads_together = u32(problem.head_count);
    divide_points(problem, device);
    launch_count =
        1 + (problem.grad_value_dtype != MSDA_DTYPE_F32 ? 1 : 0) + (problem.fused() ? 3 : 0);
  }
  // Gives a slot as many points of a row as leave each SM its threads.
  void divide_points(Problem const& problem, Device const& device) {
    std::int64_t const lanes = points::kPointThreads / kernels.slots;
    std::int64_t const groups = divide_up(problem.point_total, kernels.points);
    std::int64_t const threads = std::max<std::int64_t>(row_count(problem) * lanes, 1);
    std::int64_t const wanted = divide_up(kThreadsOfSm * device.sm_count, threads);
    std::int64_t const of_part =
        groups / std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(groups, 1));
    add.part_points = std::max<std::int64_t>(of_part, 1) * kernels.points;
    add.parts = divide_up(problem.point_total, add.part_points);
  }
  DeviceArray<LevelParams> far_levels;
  DeviceArray<points::PointLevel> point_levels;
  Params params;    // all but the buffers
  AddParams add{};  // all but the arrays
  Kernels kernels{};
  bool has_vectors = false;  // as far as strides say
};

// ---- launch

void add_points(AtomicPlan const& plan, Params const& p, AddParams const& add,
                cudaStream_t stream) {
  Kernels const& kernels = plan.kernels;
  std::int64_t const rows = add.points.queries * p.head_count;
  LogitParams const logits = {add.weights, add.gradients, rows};
  LaunchOptions const by_row = {.blocks = divide_up(rows, kRowThreads / kRowLanes),
                                .threads = kRowThreads};
  if (add.weights != nullptr) launch_overlapping(kernels.softmax, by_row, stream, p, logits);
  bool const vectors = plan.has_vectors && is_aligned(p.value, 16) && is_aligned(p.grad_output, 16);
  if (p.token_count > 0) {
    launch_overlapping(
        kernels.add[vectors],
        {.blocks = divide_up(rows * add.parts, kernels.slots), .threads = points::kPointThreads},
        stream, p, add);
  } else {  // no values to load; softmax alone says what the gradients of logits are
    points::clear_point_gradients(kernels.engine, p, stream);
    points::clear(add.gradients, rows * p.point_total, MSDA_DTYPE_F32, stream);
  }
  if (add.gradients == nullptr) return;
  if (p.grad_weight != nullptr) launch_overlapping(kernels.logits, by_row, stream, p, logits);
  if (p.token_count > 0) points::sum_references(kernels.engine, p, add.points, stream);
}

void launch(Variant const&, Launch const& launch) {
  auto const& plan = static_cast<AtomicPlan const&>(*launch.prepared);
  Problem const& problem = launch.problem;
  auto const stream = static_cast<cudaStream_t>(launch.call.stream);
  Params const p = with_buffers(plan.params, launch.call);
  if (!points::has_gradients(problem)) {
    points::clear(p.grad_value, value_count(problem), p.grad_value_dtype, stream);
    points::clear_point_gradients(plan.kernels.engine, p, stream);
    return;
  }
  AddParams add = plan.add;
  add.wants_points = p.wants_points();
  if (p.grad_value == nullptr && !add.wants_points) return;
  Arena arena(launch.call.workspace);
  take_arrays(add, problem, arena);
  if (!add.wants_points) add.gradients = nullptr;
  points::look_at_buffers(add.points, p);
  std::int64_t const elements = value_count(problem);
  bool const rounds = add.sums != nullptr && p.grad_value != nullptr;
  if (!rounds) add.sums = static_cast<float*>(p.grad_value);
  add.vector_sums = is_aligned(add.sums, 16);
  points::clear(add.sums, elements, MSDA_DTYPE_F32, stream);
  add_points(plan, p, add, stream);
  if (!rounds) return;
  std::int64_t const quads = elements / kQuadChannels;
  bool const aligned = is_aligned(p.grad_value, kQuadChannels * dtype_bytes(p.grad_value_dtype));
  launch_overlapping(
      plan.kernels.convert,
      {.blocks = divide_up(quads, kConvertThreads * kConvertQuads), .threads = kConvertThreads},
      stream, p, ConvertParams{add.sums, quads, aligned});
}

}  // namespace

extern const FamilyCode kCode = {prepare<AtomicPlan>, launch};

}  // namespace msda::atomic
