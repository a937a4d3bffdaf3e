// Which problems the family takes, and in which time. It needs no CUDA.

#include "tests/families/example_gpu/plan.h"

namespace msda::example_gpu {
namespace {

#define MSDA_COSTS "tests/families/example_gpu/variants.inc"
#include "core/costs.inc"

Reason reject(Variant const& variant, Problem const& problem, Device const& device) {
  Reason const reason = reject_forward(variant, problem, device);
  if (reason != Reason::kNone) return reason;
  return device.sm_count_limit != 0 ? Reason::kSmLimit : Reason::kNone;
}

double predicted_us(Costs const& costs, Variant const&, Problem const& problem,
                    Device const& device) {
  double const point_channels = points_of(problem) * number(problem.head_dim);
  return costs.launch_us + 1e-3 * point_channels * costs.point_channel_ns / device.sm_count;
}

}  // namespace

const FamilyModel kModel = {
    .name = "example_gpu",
    .variants = kTable.variants(),
    .reject = reject,
    .predict = predict<Costs, predicted_us>,
    .constants = kConstants,
};

}  // namespace msda::example_gpu
