// The lanes of a warp: their numbers, sums over them, and a list that they order.
#pragma once

#include "kernels/common/params.h"

#include <cstdint>

namespace msda {

inline constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ int lane_of() { return static_cast<int>(threadIdx.x % kWarp); }
__device__ __forceinline__ int warp_of() { return static_cast<int>(threadIdx.x / kWarp); }

__device__ __forceinline__ std::uint32_t lanes_before() {
  return (1u << static_cast<unsigned>(lane_of())) - 1u;
}

// Sums over `lanes` neighbouring lanes, a power of two of them; each gets the result.
__device__ __forceinline__ float sum_of_lanes(float x, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    x += __shfl_xor_sync(kAllLanes, x, distance);
  }
  return x;
}

// Does the same to several numbers, whose shuffles alternate: each waits for its last one.
template <int kCount>
__device__ __forceinline__ void sum_over_lanes(float (&x)[kCount], int lanes) {
#pragma unroll 1
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) x[j] += __shfl_xor_sync(kAllLanes, x[j], distance);
  }
}

__device__ __forceinline__ float largest_of_lanes(float x, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, distance));
  }
  return x;
}

// Sum over this lane and those before it.
template <typename T>
__device__ __forceinline__ T running_sum(T x) {
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    T const other = __shfl_up_sync(kAllLanes, x, static_cast<unsigned>(distance));
    if (lane_of() >= distance) x += other;
  }
  return x;
}

// The sum over all threads before this one. `sums` has kWarp + 1 numbers in shared memory, the last
// of which becomes the total. All threads of the block call it, at most kWarp warps.
__device__ __forceinline__ std::uint32_t sum_before(std::uint32_t x, std::uint32_t* sums) {
  int const warps = static_cast<int>(blockDim.x / kWarp);
  std::uint32_t const running = running_sum(x);
  if (lane_of() == kWarp - 1) sums[warp_of()] = running;
  __syncthreads();
  if (warp_of() == 0) {
    std::uint32_t const of_warp = lane_of() < warps ? sums[lane_of()] : 0;
    std::uint32_t const until = running_sum(of_warp);
    __syncwarp();
    sums[lane_of()] = until - of_warp;
    if (lane_of() == kWarp - 1) sums[kWarp] = until;
  }
  __syncthreads();
  return sums[warp_of()] + running - x;
}

// Orders a list of `count` different numbers below kWarp * words, whatever their count: a bit each,
// then bit after bit. List and `bits`, `words` of them, are in shared memory. All lanes call it.
__device__ __forceinline__ void order_by_bits(std::uint16_t* list, std::uint32_t count,
                                              std::uint32_t* bits, int words) {
  for (int word = lane_of(); word < words; word += kWarp) bits[word] = 0;
  __syncwarp();
  for (std::uint32_t i = lane_of(); i < count; i += kWarp) {
    std::uint32_t const number = list[i];
    atomicOr(&bits[number / kWarp], 1u << number % kWarp);
  }
  __syncwarp();
  for (int base = 0; base < words; base += kWarp) {
    int const word = base + lane_of();
    std::uint32_t left = word < words ? bits[word] : 0;
    auto const here = static_cast<std::uint32_t>(__popc(left));
    std::uint32_t const until = running_sum(here);
    std::uint16_t* at = list + until - here;
    for (; left != 0; left &= left - 1) {
      *at++ = static_cast<std::uint16_t>(word * kWarp + __ffs(static_cast<int>(left)) - 1);
    }
    list += __shfl_sync(kAllLanes, until, kWarp - 1);
  }
  __syncwarp();
}

}  // namespace msda
