// What a warp or a block does together: ranks and running sums, in an order that is always the
// same.
#pragma once

#include "kernels/common/ptx_cluster.cuh"
#include "kernels/sorted/sorted.h"

#include <cstdint>

namespace msda::sorted {

inline constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ int lane_of() { return static_cast<int>(threadIdx.x % kWarp); }
__device__ __forceinline__ int warp_of() { return static_cast<int>(threadIdx.x / kWarp); }

// n / d of any 32 bits, where `by` is (2^32 - 1) / d: what n times that loses is less than d.
__device__ __forceinline__ std::uint32_t quotient(std::uint32_t n, std::uint32_t d,
                                                  std::uint32_t by) {
  std::uint32_t const least = __umulhi(n, by);
  return n - least * d >= d ? least + 1 : least;
}

// A head of the run, as which batch item's which. B M fits 32 bits, and divisions of 64 take a
// hundred instructions.
struct HeadIndex {
  std::int64_t b, m;

  __device__ HeadIndex(Params const& p, ValueParams const& s, std::int64_t head) {
    auto const index = static_cast<std::uint32_t>(s.first_head + head);
    auto const heads = static_cast<std::uint32_t>(p.head_count);
    std::uint32_t const batch_item = quotient(index, heads, s.by_heads);
    b = batch_item;
    m = index - batch_item * heads;
  }
};

__device__ __forceinline__ std::uint32_t lanes_before() {
  return (1u << static_cast<unsigned>(lane_of())) - 1u;
}

__device__ __forceinline__ std::uint32_t lanes_until() { return kAllLanes >> (31 - lane_of()); }

// How many of a warp's points before this one have the same key, in rounds of 32 points: `counters`
// are the warp's own, one a key. Points that are not `there` have no rank.
__device__ __forceinline__ std::uint32_t rank_in_warp(std::uint16_t* counters, bool there,
                                                      std::uint32_t key) {
  std::uint32_t const same = __match_any_sync(kAllLanes, there ? key : ~0u);
  std::uint32_t const before = __popc(same & lanes_before());
  std::uint32_t const earlier = there ? counters[key] : 0;
  __syncwarp();
  if (there && before == 0) {
    counters[key] = static_cast<std::uint16_t>(earlier + __popc(same));
  }
  __syncwarp();
  return earlier + before;
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

// Sum over all threads before this one. `sums` is of kWarp + 1 numbers in shared memory; the last
// of them becomes the total. All threads of the block call it, at most kWarp warps.
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

// Sums over the lanes of a group, a power of two of them; each gets the result.
__device__ __forceinline__ float sum_of_lanes(float x, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    x += __shfl_xor_sync(kAllLanes, x, distance);
  }
  return x;
}

}  // namespace msda::sorted
