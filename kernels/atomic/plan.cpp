#include "kernels/atomic/plan.h"

#include "kernels/points/plan.h"

#include <algorithm>

namespace msda::atomic {
namespace {

#define MSDA_COSTS "kernels/atomic/variants.inc"
#include "core/costs.inc"

// Tokens, queries, and points of all rows are counted in 32 bits.
bool sizes_fit(Problem const& problem) {
  double points = 1;
  for (std::int64_t const size :
       {problem.batch, problem.query_count, problem.head_count, problem.point_total}) {
    points *= std::max(number(size), 1.0);
  }
  return points <= INT32_MAX && problem.token_count <= INT32_MAX;
}

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Reason const reason = points::reject(variant, problem, device, true);
  if (reason != Reason::kNone) return reason;
  return sizes_fit(problem) ? Reason::kNone : Reason::kTooLarge;
}

// The additions are the L2 cache's, the rest is the SMs' beside them.
double predicted_us(Costs const& costs, Variant const&, Problem const& problem,
                    Device const& device) {
  double const values = number(value_count(problem));
  double const points = points_of(problem);
  double const channels = number(problem.head_dim);
  double const of_point =
      costs.point_instructions + channels / points::kChannelsOfLane * costs.point_lane_instructions;
  double const work_us = 1e-3 * points * of_point *
                         points::element_factor(problem, costs.element_factor) /
                         (costs.instructions_per_ns * device.sm_count);
  double const addition_us = 4 * points * channels / costs.additions_per_us;
  bool const rounds = problem.grad_value_dtype != MSDA_DTYPE_F32;
  double const rounding_us =
      rounds ? values * number(4 + dtype_bytes(problem.grad_value_dtype)) / costs.bytes_per_us : 0;
  double const launches = 2 + (rounds ? 1 : 0) + (problem.fused() ? 2 : 0);
  return costs.call_us + costs.launch_us * launches + values * 4 / costs.clear_bytes_per_us +
         rounding_us +
         f32_factor(problem, costs.f32_factor) *
             std::max({work_us, addition_us, forward_bytes(problem) / costs.bytes_per_us});
}

void workspace(Variant const&, Problem const& problem, Device const&, Arena& arena) {
  AddParams params{};
  take_arrays(params, problem, arena);
}

}  // namespace

void take_arrays(AddParams& params, Problem const& problem, Arena& arena) {
  if (problem.grad_value_dtype != MSDA_DTYPE_F32) {
    params.sums = arena.take<float>(count_of(value_count(problem)));
  }
  if (!problem.fused()) return;
  std::size_t const points = count_of(row_count(problem) * problem.point_total);
  params.weights = arena.take<float>(points);
  params.gradients = arena.take<float>(points);
  params.points.by_pixel = arena.take<float>(2 * points);
}

extern const FamilyModel kModel = {
    .name = "atomic",
    .variants = kTable.variants(),
    .reject = reject,
    .predict = predict<Costs, predicted_us>,
    .constants = kConstants,
    .workspace = workspace,
};

}  // namespace msda::atomic
