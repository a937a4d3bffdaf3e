// Which problems a variant of the pipeline family takes, and in which time.

#include "kernels/pipeline/plan.h"

#include <algorithm>
#include <cmath>

namespace msda::pipeline {
namespace {

#define MSDA_COSTS "kernels/pipeline/variants.inc"
#include "core/costs.inc"

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Entry const& entry = kTable[variant];
  Reason const reason = reject_forward(variant, problem, device);
  if (reason != Reason::kNone) return reason;
  if (device.sm_count_limit != 0) return Reason::kSmLimit;
  if (!head_dim_fits(problem.head_dim, entry.channels, 8)) return Reason::kHeadDim;
  if (!levels_are_near(problem)) return Reason::kLevels;
  if (problem.point_total > kMaxPoints) return Reason::kPoints;
  if (!rows_are_packed(problem)) return Reason::kStrides;
  Layout const layout = layout_of(entry.channels, element_bytes(problem));
  double const blocks = rows_of(problem) / (kThreads / layout.lanes);
  if (blocks > INT32_MAX || !tokens_fit(problem)) return Reason::kTooLarge;
  std::int64_t const shared_bytes =
      shared_bytes_of(entry.channels, entry.stages, element_bytes(problem));
  return shared_bytes > device.shared_bytes_per_block ? Reason::kSharedMemory : Reason::kNone;
}

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device) {
  Entry const& entry = kTable[variant];
  Layout const layout = layout_of(entry.channels, element_bytes(problem));
  double const points = number(problem.point_total);
  double const chunks = number(divide_up(problem.point_total, layout.lanes));
  double const vecs = number(layout.lanes * layout.vecs);
  double const gather_ns = std::max(costs.point_ns, costs.point_vec_ns * vecs);
  double const locate_ns = costs.locate_ns + (problem.fused() ? costs.fused_ns : 0.0);
  double const row_ns =
      gather_ns * points + locate_ns * chunks * layout.lanes + costs.row_vec_ns * vecs;
  double const waits_us = costs.wait_us * points / number(entry.stages) +
                          costs.chunk_wait_us * chunks +
                          (problem.fused() ? costs.fused_wait_us : 0.0);
  return costs.launch_us + waits_us +
         std::hypot(1e-3 * rows_of(problem) * row_ns / device.sm_count,
                    forward_bytes(problem) / costs.bytes_per_us);
}

}  // namespace

extern const FamilyModel kModel = {
    .name = "pipeline",
    .variants = kTable.variants(),
    .reject = reject,
    .predict = predict<Costs, predicted_us>,
    .constants = kConstants,
};

}  // namespace msda::pipeline
