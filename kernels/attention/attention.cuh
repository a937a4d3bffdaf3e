// The kernel of attention.h. It is compiled once, not with each variant of a family.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/common/launch.h"
#include "kernels/common/ptx.cuh"
#include "kernels/common/sampling.cuh"

namespace msda::attention {

// A warp a row. NaN is no largest logit, and makes the sum and so all weights of its row NaN.
template <typename Real>
__global__ void __launch_bounds__(kThreads) write_attention(const __grid_constant__ Params p) {
  ptx::wait_for_previous_grid();
  std::int64_t const M = p.head_count, K = p.point_total;
  std::int64_t const rows = p.batch * p.query_count * M;
  std::int64_t const warps = std::int64_t{gridDim.x} * (kThreads / kWarp);
  unsigned const lane = threadIdx.x % kWarp;
  std::int64_t row = std::int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
  for (; row < rows; row += warps) {
    std::int64_t const query = row / M;
    std::int64_t const first =
        p.weight_strides.at(query / p.query_count, query % p.query_count, row % M);
    auto const logit = [&](std::int64_t k) {
      return load_element<Real>(p.weight_dtype, p.weight, first + k);
    };
    Real largest = -INFINITY;
    for (std::int64_t k = lane; k < K; k += kWarp)
      largest = logit(k) > largest ? logit(k) : largest;
    largest = join_lanes<kWarp>(largest, [](Real a, Real b) { return a > b ? a : b; });
    Real sum = 0;
    for (std::int64_t k = lane; k < K; k += kWarp) sum += exp(logit(k) - largest);
    sum = join_lanes<kWarp>(sum, [](Real a, Real b) { return a + b; });
    for (std::int64_t k = lane; k < K; k += kWarp) {
      store_element(p.weight_dtype, p.attention, row * K + k, exp(logit(k) - largest) / sum);
    }
  }
}

template <typename Real>
Kernel<Params> load() {
  return load_kernel(write_attention<Real>);
}
template Kernel<Params> load<float>();
template Kernel<Params> load<double>();

}  // namespace msda::attention
