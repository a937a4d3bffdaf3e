// The generic kernels: any legal problem, one output element a thread, or a warp where channels
// have to be summed. They are written to be right; the row kernels are the fast ones.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/common/warp.cuh"
#include "kernels/direct/direct.h"
#include "kernels/rows/row_element.cuh"

namespace msda::direct {

using rows::forward_element;
using rows::Row;

__device__ inline std::int64_t thread_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t thread_count() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}
__device__ inline std::int64_t warp_index() { return thread_index() / kWarp; }
__device__ inline std::int64_t warp_count() { return thread_count() / kWarp; }
__device__ inline std::int64_t lane_index() { return threadIdx.x % kWarp; }

// Sums over the lanes of a warp, in an order that is always the same.
template <typename Sum>
__device__ Sum warp_sum(Sum x) {
  return join_lanes<kWarp>(x, [](Sum own, Sum other) { return own + other; });
}

// ---- forward

template <ValueType kType, typename Real, bool kNearest>
__global__ void __launch_bounds__(kThreads, 2) forward_any(const __grid_constant__ Params p) {
  ptx::wait_for_previous_grid();
  std::int64_t const M = p.head_count;
  std::int64_t const elements = p.batch * p.query_count * M * p.head_dim;
  for (std::int64_t i = thread_index(); i < elements; i += thread_count()) {
    std::int64_t const d = i % p.head_dim;
    std::int64_t const m = i / p.head_dim % M;
    std::int64_t const bq = i / p.head_dim / M;
    Row<Real> const row(p, bq / p.query_count, bq % p.query_count, m);
    store_element(p.output_dtype, p.output, p.output_strides.at(row.b, row.q, m) + d,
                  forward_element<kType, kNearest>(p, row, d));
  }
}

// ---- what the kernels of the backward share: a lane locates a point, then all lanes of its warp
// work on the point's channels

// Calls fn with an element of the type.
template <class Fn>
__device__ void with_element(msda_dtype dtype, Fn fn) {
  switch (dtype) {
    case MSDA_DTYPE_F64:
      return fn(double{});
    case MSDA_DTYPE_F16:
      return fn(__half{});
    case MSDA_DTYPE_BF16:
      return fn(__nv_bfloat16{});
    default:
      return fn(float{});
  }
}

// Divisions of 64 bits take a hundred instructions.
__device__ inline std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  return a / b;
}

__device__ inline std::int32_t level_of_point(Params const& p, std::int64_t k) {
  std::int32_t l = 0;
  while (k >= p.level(l).point_start + p.level(l).point_count) ++l;
  return l;
}

// Point k of a row, if it has as many.
struct RowPoint {
  std::int64_t k;
  bool is_there;
  std::int32_t l = 0;
  LevelParams level{};

  __device__ RowPoint(Params const& p, std::int64_t point)
      : k(point), is_there(point < p.point_total) {
    if (!is_there) return;
    l = level_of_point(p, k);
    level = p.level(l);
  }
};

// Sum over this lane and those before it.
template <typename T>
__device__ T sum_to_lane(T x) {
#pragma unroll
  for (unsigned distance = 1; distance < kWarp; distance *= 2) {
    T const other = __shfl_up_sync(kAllLanes, x, distance);
    if (lane_index() >= distance) x += other;
  }
  return x;
}

// Sums over the lanes of kCount numbers each, so that lane i ends with that of number
// i * kCount / kWarp. Half of the numbers go to another lane, then half of the rest.
template <int kCount, int kDistance = kWarp / 2, typename Sum>
__device__ __forceinline__ Sum sum_of_each(Sum (&numbers)[kCount]) {
  if constexpr (kDistance == 0) {
    return numbers[0];
  } else if constexpr (kCount == 1) {
    Sum sum[1] = {numbers[0] + __shfl_xor_sync(kAllLanes, numbers[0], kDistance)};
    return sum_of_each<1, kDistance / 2>(sum);
  } else {
    constexpr int kHalf = kCount / 2;
    bool const is_upper = (lane_index() & kDistance) != 0;
    Sum sums[kHalf];
#pragma unroll
    for (int i = 0; i < kHalf; ++i) {
      Sum const own = is_upper ? numbers[i + kHalf] : numbers[i];
      Sum const given = is_upper ? numbers[i] : numbers[i + kHalf];
      sums[i] = own + __shfl_xor_sync(kAllLanes, given, kDistance);
    }
    return sum_of_each<kHalf, kDistance / 2>(sums);
  }
}

}  // namespace msda::direct
