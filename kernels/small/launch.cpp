// The small family: a deterministic backward in one launch.

#include "kernels/points/launch.h"
#include "core/device_array.h"
#include "kernels/points/plan.h"
#include "kernels/small/plan.h"

#include <algorithm>

namespace msda::small {
namespace {

// Loads the kernels of each row of variants.inc.
constexpr Kernels (*kLoad[])(std::int64_t, Rounds) = {
#define MSDA_VARIANT(type, ...) load_kernels<ValueType::type>,
#include "rows/small.inc"
#undef MSDA_VARIANT
};

// ---- prepare

struct SmallPlan final : Prepared {
  SmallPlan(Variant const& variant, Problem const& problem, Device const& device)
      : point_levels(points::point_levels(problem), device),
        params(make_params(problem)),
        kernels(kLoad[kTable.index_of(variant)](problem.head_dim, rounds_of(problem))),
        has_other_tokens(points::has_other_tokens(problem)) {
    Tiling const tiling = make_tiling(problem, device.sm_count);
    std::ranges::copy(tiling.levels, small.levels);
    small.heads = i32(problem.batch * problem.head_count);
    tiles = tiling.tiles * small.heads;
    std::int64_t const round = std::clamp<std::int64_t>(largest_points(problem), 1, kRoundPoints);
    small.round_points = i32(divide_up(round, kWarp) * kWarp);
    small.staged_in_shared = stages_in_shared(problem);
    small.points.point_levels = point_levels.data();
    small.points.queries = problem.batch * problem.query_count;
    small.points.heads_together = u32(heads_together(problem.head_count));
    PointBlocks const of_points = small::point_blocks(problem, device.sm_count);
    small.point_slots = of_points.slots;
    small.part_bits = of_points.part_bits;
    small.part_points = of_points.part_points;
    point_blocks = of_points.blocks;
    shared_bytes = tile_bytes(small.round_points, row_lanes(problem));
    if (problem.fused() && small.staged_in_shared) {
      shared_bytes =
          std::max(shared_bytes, staged_bytes(divide_up(problem.point_total, kPointsAtOnce)));
    }
    has_vectors =
        problem.output_dtype == problem.value_dtype && value_strides_are_multiples(problem, 16) &&
        row_stride_fits(problem.value, problem.value_dtype) &&
        strides_are_multiples(problem.output, problem.output_dtype, 16) &&
        row_stride_fits(problem.output, problem.output_dtype) && gradients_are_near(problem);
    std::int64_t const four_bytes = 4 * dtype_bytes(problem.weight_dtype);
    has_logit_fours = problem.point_total % 4 == 0 &&
                      strides_are_multiples(problem.weight, problem.weight_dtype, four_bytes);
    launch_count = problem.fused() ? 2 : 1;
  }
  DeviceArray<PointLevel> point_levels;
  Params params;        // all but the buffers
  SmallParams small{};  // all but the arrays
  Kernels kernels;
  std::int64_t tiles = 0;         // of all heads
  std::int64_t point_blocks = 0;  // of all rows
  std::int64_t shared_bytes = 0;
  bool has_vectors = false;  // as far as strides say
  bool has_logit_fours = false;
  bool has_other_tokens;
};

// ---- launch

void launch(Variant const&, Launch const& launch) {
  auto const& plan = static_cast<SmallPlan const&>(*launch.prepared);
  Problem const& problem = launch.problem;
  auto const stream = static_cast<cudaStream_t>(launch.call.stream);
  Params const p = with_buffers(plan.params, launch.call);
  if (!has_gradients(problem) || plan.has_other_tokens) {
    points::clear(p.grad_value, value_count(problem), p.grad_value_dtype, stream);
  }
  if (!has_gradients(problem)) return clear_point_gradients(plan.kernels.engine, p, stream);
  SmallParams s = plan.small;
  Arena arena(launch.call.workspace);
  take_arrays(s, problem, arena);
  if (s.sums == nullptr) s.sums = static_cast<float*>(p.grad_value);
  look_at_buffers(s.points, p);
  s.logit_fours = plan.has_logit_fours && is_aligned(p.weight, 4 * dtype_bytes(p.weight_dtype));
  s.plain_fused = problem.fused() && p.point_total <= kWarpLogits &&
                  p.coord_dtype == MSDA_DTYPE_F32 && s.points.coord_pairs &&
                  p.reference_dtype == MSDA_DTYPE_F32 &&
                  is_aligned(p.reference, p.reference_dim * 4);
  s.aligned_result = is_aligned(p.grad_value, 16);
  s.aligned_sums = is_aligned(s.sums, 16);
  s.tile_blocks = p.grad_value != nullptr ? plan.tiles : 0;
  bool const vectors = plan.has_vectors && is_aligned(p.value, 16) && is_aligned(p.grad_output, 16);
  launch_overlapping(plan.kernels.gradients[vectors],
                     {.blocks = s.tile_blocks + (p.wants_points() ? plan.point_blocks : 0),
                      .threads = kThreads,
                      .shared_bytes = plan.shared_bytes},
                     stream, p, s);
  sum_references(plan.kernels.engine, p, s.points, stream);
}

}  // namespace

extern const FamilyCode kCode = {prepare<SmallPlan>, launch};

}  // namespace msda::small
