// Rows on the exact path alone: for values at addresses that no tensor map takes. The same bits as
// those of the kernel whose place it takes.
#pragma once

#include "kernels/common/ptx_cluster.cuh"
#include "kernels/tma/point_sums.cuh"

namespace msda::tma {

__device__ __forceinline__ Row row_at(Params const& p, std::int64_t index, std::int64_t rows) {
  std::int64_t const row = min(index, rows - 1), query = row / p.head_count;
  std::int64_t const b = query / p.query_count;
  return {b, query - b * p.query_count, row - query * p.head_count, index < rows};
}

template <class Config>
__global__ void __launch_bounds__(kBoxWarps* kWarp, 2)
    sum_rows(const __grid_constant__ Params p, const __grid_constant__ RowParams schedule) {
  ptx::launch_dependents();
  ptx::wait_for_previous_grid();
  unsigned const lane = threadIdx.x % kWarp, j = lane % Config::kLanes;
  std::int64_t const stride = std::int64_t{gridDim.x} * kBoxWarps * Config::kSlots;
#pragma unroll 1
  for (std::int64_t first =
           (std::int64_t{blockIdx.x} * kBoxWarps + threadIdx.x / kWarp) * Config::kSlots;
       first < schedule.rows; first += stride) {
    Row const row = row_at(p, first + lane / Config::kLanes, schedule.rows);
    PointRow const points(p, row.b, row.q, row.m);
    RowWeights<Config> const weights(p, points, j);
    LaneValues<Config> const values(p, row, vec_of_lane(p.head_dim, Config::kChannels, j));
    RowSums<Config> sums;
    sum_exact(p, row, points, weights, values, sums);
    store_row(p, row, j, sums, schedule.aligned_output);
  }
}

}  // namespace msda::tma
