// Where the records of a tile's list are: which segment has which of them.
#pragma once

#include "kernels/sorted/piece.cuh"
#include "kernels/sorted/tile_lists.cuh"

namespace msda::sorted {

// Before the first round, and once the records of one have been found.
template <class Config>
__device__ __forceinline__ void clear_segments(SumStorage<Config>& shared) {
  if (threadIdx.x < kRoundWords) shared.segment_starts[threadIdx.x] = 0;
}

// Of `count` records of the tile's list, from `base` on: a bit and the offset where a segment
// begins, and where it goes on in the next word of bits. All threads of the block.
template <class Config>
__device__ __forceinline__ void map_segments(ValueParams const& s, SumStorage<Config>& shared,
                                             Piece const& piece, std::uint32_t base, int count) {
  const Segment* const segments = piece.segments(s);
  for (std::uint32_t i = threadIdx.x; i < piece.segment_count; i += kSumThreads) {
    Segment const segment = segments[i];
    std::uint32_t const begin = i == 0 ? 0 : segments[i - 1].end;
    if (segment.end <= base || begin >= base + static_cast<std::uint32_t>(count)) continue;
    std::uint32_t const end = min(segment.end - base, static_cast<std::uint32_t>(count));
    for (std::uint32_t at = max(begin, base) - base; at < end; at = (at | (kWarp - 1)) + 1) {
      shared.offsets()[at] = segment.offset + base;
      atomicOr(&shared.segment_starts[at / kWarp], 1u << at % kWarp);
    }
  }
}

// Where in the head's list record `base + i` of the tile's is; `i` is the lane's of `word`.
template <class Config>
__device__ __forceinline__ std::uint32_t record_of_round(SumStorage<Config> const& shared,
                                                         int word) {
  std::uint32_t const starts = shared.segment_starts[word] & lanes_until();
  int const last = 31 - __clz(static_cast<int>(starts));
  return shared.offsets()[word * kWarp + last] +
         static_cast<std::uint32_t>(word * kWarp + lane_of());
}

// The records of a tile by one warp, 32 at a time from the first on.
class SegmentWalk {
 public:
  __device__ __forceinline__ SegmentWalk(ValueParams const& s, Piece const& piece)
      : at_(piece.segments(s)), left_(static_cast<int>(piece.segment_count)) {}
  // Where in the head's list record `base + lane` of the tile's is. There may be fewer. All lanes.
  __device__ __forceinline__ std::uint32_t next(std::uint32_t base) {
    Segment segment{};
    if (lane_of() < left_) segment = at_[lane_of()];
    // Segments end at different records, the first of these behind `base`.
    std::uint32_t const last = segment.end - 1 - base;
    std::uint32_t const ends =
        __reduce_or_sync(kAllLanes, lane_of() < left_ && last < kWarp ? 1u << last : 0u);
    int const index = __popc(ends & lanes_before());
    int const passed = __popc(ends);
    at_ += passed;
    left_ -= passed;
    return __shfl_sync(kAllLanes, segment.offset, index) + base +
           static_cast<std::uint32_t>(lane_of());
  }

 private:
  const Segment* at_;
  int left_;
};

}  // namespace msda::sorted
