// Levels in shared memory: copied for each batch item and group of heads, and read there.
#pragma once

#include "kernels/common/shared.cuh"
#include "kernels/common/vecs.cuh"
#include "kernels/persistent/lane.cuh"

namespace msda::persistent {

// Where they begin: at a whole line, so that rows meet the banks that they are meant to.
__device__ __forceinline__ std::uint32_t cache_begin() {
  MSDA_DYNAMIC_SHARED(cache);
  auto const begin = static_cast<std::uint32_t>(__cvta_generic_to_shared(cache));
  return (begin + kLineBytes - 1) / kLineBytes * kLineBytes;
}

template <int kBytes>
__device__ __forceinline__ Vec<kBytes> load_cached(std::uint32_t at) {
  static_assert(kBytes == 16, "a lane loads 16 bytes at once");
  Vec<kBytes> vec;
  ptx::load_shared(at, vec.word);
  return vec;
}

// The levels of one group of heads, numbered among those of all batch items; by all threads of the
// block. When it returns, what the thread has copied is there.
template <class Config>
__device__ void copy_levels(Params const& p, ScheduleParams const& schedule, std::uint32_t group) {
  constexpr std::uint32_t kGroups = Config::kHeadCount / Config::kHeads;
  const char* const values = static_cast<const char*>(p.value) +
                             group / kGroups * schedule.item_bytes +
                             std::uint64_t{group % kGroups} * Config::kCachedPixelBytes;
#pragma unroll 1
  for (std::uint32_t left = schedule.cached_levels; left != 0; left &= left - 1) {
    int const l = __ffs(static_cast<int>(left)) - 1;
    const char* const from = values + p.near_levels[l].origin * Config::kPixelBytes;
    std::uint32_t const to = cache_begin() + schedule.places[l].origin * kVecBytes;
    for (std::uint32_t at = threadIdx.x * kVecBytes; at < schedule.cached_bytes[l];
         at += Config::kThreads * kVecBytes) {
      std::uint32_t const pixel = at / Config::kCachedPixelBytes;
      ptx::copy_async(to + at, from + std::uint64_t{pixel} * Config::kPixelBytes +
                                   at % Config::kCachedPixelBytes);
    }
  }
  ptx::wait_for_copies();
}

}  // namespace msda::persistent
