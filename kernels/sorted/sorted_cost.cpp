#include "core/dtype.h"
#include "kernels/common/work.h"
#include "kernels/sorted/config.h"
#include "kernels/sorted/sorted_costs.h"

#include <algorithm>

namespace msda::sorted {
namespace {

// Whether rows of grad_output are not loaded in vectors for what their types are.
bool mixes_types(Problem const& problem) { return problem.output_dtype != problem.value_dtype; }

// Every tensor once, and the records of the points.
double bytes_of(Problem const& problem) {
  double const values = static_cast<double>(problem.batch * problem.token_count) *
                        static_cast<double>(problem.head_count * problem.head_dim);
  auto const point =
      static_cast<double>(4 * dtype_bytes(problem.coord_dtype) +
                          2 * dtype_bytes(problem.weight_dtype) + 2 * 16);
  return forward_bytes(problem) + points_of(problem) * point +
         values * static_cast<double>(dtype_bytes(problem.grad_value_dtype));
}

}  // namespace

double predicted_us(Costs const& costs, Variant const&, Problem const& problem,
                    Device const& device) {
  double const lanes =
      std::max(1.0, static_cast<double>(problem.head_dim) / kChannelsOfLane);
  double const rows = costs.sum_lane_instructions + costs.gather_lane_instructions;
  double const instructions = points_of(problem) * (costs.bin_instructions +
                                                    costs.sum_instructions +
                                                    costs.gather_instructions + rows * lanes);
  double const factor = (mixes_types(problem) ? costs.element_factor : 1.0) *
                        (dtype_bytes(problem.value_dtype) == 4 ? costs.f32_factor : 1.0);
  double const work_us =
      1e-3 * factor * instructions / (costs.instructions_per_ns * device.sm_count);
  double const launches = problem.fused() ? 9.0 : 6.0;
  return costs.launch_us * launches + std::max(work_us, bytes_of(problem) / costs.bytes_per_us);
}

}  // namespace msda::sorted
