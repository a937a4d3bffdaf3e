#include "core/dtype.h"
#include "kernels/common/work.h"
#include "kernels/sorted/sorted_costs.h"
#include "kernels/sorted/tiles.h"

#include <algorithm>

namespace msda::sorted {
namespace {

double number(std::int64_t n) { return static_cast<double>(n); }

// Every tensor once, and the points' coordinates, weights and records as often as they are read and
// written.
double bytes_of(Problem const& problem) {
  double const values =
      number(problem.batch * problem.token_count) * number(problem.head_count * problem.head_dim);
  std::int64_t const of_point =
      4 * dtype_bytes(problem.coord_dtype) + 2 * dtype_bytes(problem.weight_dtype) + 32;
  return forward_bytes(problem) + points_of(problem) * number(of_point) +
         values * number(dtype_bytes(problem.grad_value_dtype));
}

double instructions_of(Costs const& costs, Problem const& problem) {
  double const lanes = std::max(1.0, number(problem.head_dim) / kChannelsOfLane);
  double const slices = number((problem.head_dim + kMaxSlice - 1) / kMaxSlice);
  double tiles = 0;
  for (SumLevel const& level : make_tiling(problem).sum_levels) {
    tiles += number(level.tiles) *
             (level.is_sparse ? costs.sparse_tile_instructions : costs.tile_instructions);
  }
  double const heads = number(problem.batch * problem.head_count);
  double const of_point = costs.bin_instructions + costs.sum_instructions * slices +
                          costs.point_instructions +
                          lanes * (costs.sum_lane_instructions + costs.point_lane_instructions);
  return points_of(problem) * of_point + heads * slices * tiles;
}

}  // namespace

double predicted_us(Costs const& costs, Variant const&, Problem const& problem,
                    Device const& device) {
  bool const mixes_types = problem.output_dtype != problem.value_dtype;
  double const factor = (mixes_types ? costs.element_factor : 1.0) *
                        (dtype_bytes(problem.value_dtype) == 4 ? costs.f32_factor : 1.0);
  double const work_us = 1e-3 * factor * instructions_of(costs, problem) /
                         (costs.instructions_per_ns * device.sm_count);
  double const launches = problem.fused() ? 8.0 : 5.0;
  return costs.launch_us * launches + std::max(work_us, bytes_of(problem) / costs.bytes_per_us);
}

}  // namespace msda::sorted
