// Stages of shared memory between producer and consumer warps. Both sides count the same entries;
// entry i is in stage i modulo the stages, of which a barrier says that it is empty. Another one
// says that an entry is full. Nobody may wait for a phase before the one before it is over:
// parities would be taken for those of other phases. So where each entry is for one consumer alone,
// the barriers that say full are its own.
#pragma once

#include "kernels/common/ptx_barrier.cuh"
#include "kernels/common/shared.cuh"
#include "kernels/tma/tma_config.h"

#include <cstdint>

namespace msda::tma {

struct StageBarriers {
  std::uint64_t full[kBoxWarps * kMaxStages];
  std::uint64_t empty[kMaxProducers * kMaxStages];
};

// By one thread, before the block's first barrier: once, however many entries there are.
__device__ __forceinline__ void init_stages(StageBarriers& barriers, std::int32_t full,
                                            std::int32_t empty, std::uint32_t consumers) {
  for (std::int32_t i = 0; i < full; ++i) {
    ptx::init_mbarrier(static_cast<std::uint32_t>(__cvta_generic_to_shared(&barriers.full[i])), 1);
  }
  for (std::int32_t i = 0; i < empty; ++i) {
    ptx::init_mbarrier(static_cast<std::uint32_t>(__cvta_generic_to_shared(&barriers.empty[i])),
                       consumers);
  }
  ptx::fence_mbarrier_init();
}

// Where one side is: a stage, and the parity of how often it has been there.
class StageCursor {
 public:
  __device__ __forceinline__ explicit StageCursor(std::int32_t stages)
      : stages_(static_cast<std::uint32_t>(stages)) {}

  __device__ __forceinline__ std::uint32_t stage() const { return stage_; }
  __device__ __forceinline__ std::uint32_t parity() const { return parity_; }
  // By at most as many entries as there are stages, again and again.
  __device__ __forceinline__ void advance(std::uint32_t entries) {
    for (; entries >= stages_; entries -= stages_) parity_ ^= 1;
    stage_ += entries;
    if (stage_ < stages_) return;
    stage_ -= stages_;
    parity_ ^= 1;
  }

 private:
  std::uint32_t stages_;
  std::uint32_t stage_ = 0;
  std::uint32_t parity_ = 0;
};

// Barriers from `full` and `empty` on.
struct StageRing {
  std::uint32_t full, empty;  // addresses in shared memory

  __device__ __forceinline__ StageRing(std::uint64_t& first_full, std::uint64_t& first_empty)
      : full(static_cast<std::uint32_t>(__cvta_generic_to_shared(&first_full))),
        empty(static_cast<std::uint32_t>(__cvta_generic_to_shared(&first_empty))) {}

  __device__ __forceinline__ std::uint32_t full_of(StageCursor const& at) const {
    return full + at.stage() * 8;
  }
  // By a producer: until all consumers have left the entry that was in the stage before, if any.
  __device__ __forceinline__ void wait_until_empty(StageCursor const& at) const {
    ptx::wait_parity(empty + at.stage() * 8, at.parity() ^ 1);
  }
  // By a consumer.
  __device__ __forceinline__ void wait_until_full(StageCursor const& at) const {
    ptx::wait_parity(full_of(at), at.parity());
  }
  // By one lane of a consumer, when all of its warp have read the stage.
  __device__ __forceinline__ void leave(StageCursor const& at) const {
    ptx::arrive_mbarrier(empty + at.stage() * 8);
  }
};

// The first whole line of dynamic shared memory.
__device__ __forceinline__ std::uint32_t stage_begin() {
  MSDA_DYNAMIC_SHARED(stages);
  auto const begin = static_cast<std::uint32_t>(__cvta_generic_to_shared(stages));
  return (begin + kLineBytes - 1) / kLineBytes * kLineBytes;
}

}  // namespace msda::tma
