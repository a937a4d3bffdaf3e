// The chunk of a head's points that a block bins, and how it is ordered by tile.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/sorted/sorted.h"
#include "kernels/sorted/warps.cuh"

namespace msda::sorted {

// A block's chunk of the points of one head, and the tiles that it looks for.
struct Chunk {
  std::int64_t head;  // of the run
  std::int64_t b, m;
  std::int32_t chunk;
  std::int32_t first_tile;
  std::int32_t tiles;

  __device__ Chunk(Params const& p, ValueParams const& s) {
    auto const chunks = static_cast<std::uint32_t>(s.chunks);
    auto const windows = static_cast<std::uint32_t>(s.windows);
    std::uint32_t const rest = quotient(blockIdx.x, chunks, s.by_chunks);
    chunk = static_cast<std::int32_t>(blockIdx.x - rest * chunks);
    std::uint32_t const of_head = quotient(rest, windows, s.by_windows);
    first_tile = static_cast<std::int32_t>(rest - of_head * windows) * s.window_tiles;
    tiles = min(s.window_tiles, s.tiles - first_tile);
    head = of_head;
    HeadIndex const index(p, s, head);
    b = index.b;
    m = index.m;
  }
  // Of the head's.
  __device__ bool is_first() const { return chunk == 0 && first_tile == 0; }
  // First records of the window's tiles.
  __device__ std::uint16_t* begins(ValueParams const& s) const {
    return s.begins + (head * s.chunks + chunk) * s.begin_stride + first_tile;
  }
  // Begins that its block stores: the last window's has one more than tiles, at least.
  __device__ std::int32_t begin_count(ValueParams const& s) const {
    return first_tile + tiles < s.tiles ? tiles : s.begin_stride - first_tile;
  }
};

// Lanes among `lanes` that have the same lowest kBits bits of `tile`, by ballots: with
// match.any, which sums rank by, binning takes longer (README.md).
template <int kBits>
__device__ __forceinline__ std::uint32_t lanes_in_same_tile(std::uint32_t lanes,
                                                            std::uint32_t tile) {
#pragma unroll
  for (int i = 0; i < kBits; i += 2) {
    // Three words are one instruction.
    std::uint32_t const first = ptx::lanes_of_bit(tile, 1u << i);
    std::uint32_t const second = i + 1 < kBits ? ptx::lanes_of_bit(tile, 2u << i) : kAllLanes;
    lanes = lanes & first & second;
  }
  return lanes;
}

// As rank_in_warp(), of the lanes `same`. Points that are not there have the tile of a counter.
__device__ __forceinline__ std::uint32_t rank_in_tile(std::uint16_t* counters, std::uint32_t same,
                                                      bool there, std::uint32_t tile) {
  std::uint16_t& counter = counters[tile];
  std::uint32_t const before = __popc(same & lanes_before());
  std::uint32_t const earlier = counter;
  __syncwarp();
  if (there && before == 0) counter = static_cast<std::uint16_t>(earlier + __popc(same));
  __syncwarp();
  return earlier + before;
}

// What a block has in shared memory while it orders a chunk's points.
struct Staged {
  std::uint16_t* counters;  // [kBinWarps][stride] of the tiles of the window
  Record* records;          // [kChunkPoints]
  std::uint32_t* sums;      // [kWarp + 1]
  std::uint32_t* earlier;   // the chunk's points in tiles of earlier windows
  int stride;

  __device__ Staged(char* shared, ValueParams const& s)
      : counters(reinterpret_cast<std::uint16_t*>(shared)), stride(s.window_counters) {
    records = reinterpret_cast<Record*>(counters + kBinWarps * stride);
    sums = reinterpret_cast<std::uint32_t*>(records + (s.stages_records ? kChunkPoints : 0));
    earlier = sums + kWarp + 1;
  }
  __device__ std::uint16_t* of_warp() const { return counters + warp_of() * stride; }

  __device__ __forceinline__ void clear() const {
    auto* const quads = reinterpret_cast<uint4*>(counters);
    int const count = kBinWarps * stride / 8;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kBinThreads) quads[i] = {};
    if (threadIdx.x == 0) *earlier = 0;
  }
  // Counts of (warp, tile) to places among the chunk's records, of which those of the first warp
  // are the begins of tiles; the place behind the last. A thread takes kTilesOfThread tiles, two a
  // word: a chunk's points fit half of it.
  __device__ __forceinline__ std::uint32_t order_tiles(ValueParams const& s,
                                                       Chunk const& chunk) const {
    constexpr int kWords = kTilesOfThread / 2;
    auto* const words = reinterpret_cast<std::uint32_t*>(counters);
    int const of_warp = stride / 2;
    int const first = static_cast<int>(threadIdx.x) * kWords;
    bool const is_there = first < of_warp;
    std::uint32_t all[kWords] = {};
    std::uint32_t n = 0;
    if (is_there) {
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
#pragma unroll
        for (int w = 0; w < kBinWarps; ++w) all[i] += words[w * of_warp + first + i];
        n += (all[i] & 0xffffu) + (all[i] >> 16);
      }
    }
    std::uint32_t const first_record = *earlier;
    std::uint32_t at = first_record + sum_before(n, sums);
    if (is_there) {
      auto* const begins = reinterpret_cast<std::uint32_t*>(chunk.begins(s));
      bool const has_begins = 2 * first < chunk.begin_count(s);
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        std::uint32_t const second = at + (all[i] & 0xffffu);
        std::uint32_t before = second << 16 | at;
        if (has_begins) begins[first + i] = before;
        at = second + (all[i] >> 16);
#pragma unroll
        for (int w = 0; w < kBinWarps; ++w) {
          std::uint32_t& word = words[w * of_warp + first + i];
          std::uint32_t const of_this = word;
          word = before;
          before += of_this;
        }
      }
    }
    return first_record + sums[kWarp];
  }
};

}  // namespace msda::sorted
