#include "core/dtype.h"
#include "kernels/atomic/atomic_costs.h"
#include "kernels/common/work.h"
#include "kernels/sorted/sorted_config.h"

#include <algorithm>

namespace msda::atomic {
namespace {

double number(std::int64_t n) { return static_cast<double>(n); }

}  // namespace

// The additions are the L2 cache's, the rest is the SMs' beside them.
double predicted_us(Costs const& costs, Variant const&, Problem const& problem,
                    Device const& device) {
  double const values =
      number(problem.batch * problem.token_count) * number(problem.head_count * problem.head_dim);
  double const points = points_of(problem);
  double const channels = number(problem.head_dim);
  bool const mixes_types = problem.output_dtype != problem.value_dtype;
  double const of_point =
      costs.point_instructions + channels / sorted::kChannelsOfLane * costs.point_lane_instructions;
  double const work_us = 1e-3 * points * of_point * (mixes_types ? costs.element_factor : 1.0) /
                         (costs.instructions_per_ns * device.sm_count);
  double const addition_us = 4 * points * channels / costs.additions_per_us;
  bool const rounds = problem.grad_value_dtype != MSDA_DTYPE_F32;
  double const rounding_us =
      rounds ? values * number(4 + dtype_bytes(problem.grad_value_dtype)) / costs.bytes_per_us : 0;
  double const launches = 2 + (rounds ? 1 : 0) + (problem.fused() ? 2 : 0);
  return costs.launch_us * launches + values * 4 / costs.clear_bytes_per_us + rounding_us +
         std::max({work_us, addition_us, forward_bytes(problem) / costs.bytes_per_us});
}

}  // namespace msda::atomic
