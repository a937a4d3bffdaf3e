// The lists of tiles: what each chunk has of a tile's records, in the order of chunks.
#pragma once

#include "kernels/common/shared.cuh"
#include "kernels/sorted/sorted.h"
#include "kernels/sorted/warps.cuh"

namespace msda::sorted {

// Where the records of one tile begin in up to kCountsOfThread chunks, and how many there are, in
// registers.
struct ChunkCounts {
  std::uint32_t words[kCountsOfThread];  // begin << 16 | count

  __device__ __forceinline__ ChunkCounts(const std::uint16_t* begins, std::int32_t stride,
                                         std::int32_t chunks) {
#pragma unroll
    for (int j = 0; j < kCountsOfThread; ++j) {
      words[j] = 0;
      if (j >= chunks) continue;
      const std::uint16_t* const at = begins + static_cast<std::int64_t>(j) * stride;
      std::uint32_t const begin = at[0];
      words[j] = begin << 16 | (at[1] - begin);
    }
  }
  __device__ __forceinline__ void add_to(TileList& list) const {
#pragma unroll
    for (int j = 0; j < kCountsOfThread; ++j) {
      list.records += words[j] & 0xffffu;
      list.segments += (words[j] & 0xffffu) != 0 ? 1 : 0;
    }
  }
  // Stores those that have records as segments behind `list`, which grows by them. The first
  // chunk's records begin at `record` of the head's.
  __device__ __forceinline__ void store(Segment* segments, std::uint32_t record,
                                        std::uint32_t chunk_points, TileList& list) const {
#pragma unroll
    for (int j = 0; j < kCountsOfThread; ++j) {
      std::uint32_t const count = words[j] & 0xffffu;
      if (count != 0) {
        segments[list.segments++] = {record + (words[j] >> 16) - list.records,
                                     list.records + count};
      }
      list.records += count;
      record += chunk_points;
    }
  }
};

// Whether a warp would sum the tile, if it had few records.
__device__ __forceinline__ bool is_of_sparse_level(ValueParams const& s, std::int64_t tile) {
  std::int32_t l = 0;
  while (tile >= s.sum_levels[l].first_tile + s.sum_levels[l].tiles) ++l;
  return s.sum_levels[l].is_sparse;
}

// Of a tile that is not one piece. All pieces but a tile's last have `most` records.
__device__ __forceinline__ std::uint32_t pieces_of(ValueParams const& s, std::int64_t tile,
                                                   std::uint32_t records, std::uint32_t most) {
  bool const is_cut = records > most || (s.sum_blocks < s.tiles && records > kFewOfWarp &&
                                         is_of_sparse_level(s, tile));
  return is_cut ? (records - 1) / most + 1 : 0;
}

// A lane a tile, a warp a part of the chunks. The part's first counts are read once.
static __global__ void __launch_bounds__(kScanParts* kWarp, 5)
    list_segments(const __grid_constant__ ValueParams s) {
  MSDA_SHARED(uint2, sums, [kScanParts][kWarp]);
  ptx::wait_for_previous_grid();
  auto const groups = (static_cast<std::uint32_t>(s.tiles) + kWarp - 1) / kWarp;
  std::int64_t const head = blockIdx.x / groups;
  auto const tile = static_cast<std::int32_t>(blockIdx.x % groups * kWarp) + lane_of();
  bool const is_there = tile < s.tiles;
  std::int64_t const of_head = head * s.tiles + (is_there ? tile : 0);
  std::int32_t const of_part = (s.chunks + kScanParts - 1) / kScanParts;
  std::int32_t const first = min(warp_of() * of_part, s.chunks);
  std::int32_t const chunks = is_there ? min(of_part, s.chunks - first) : 0;
  const std::uint16_t* const begins =
      s.begins + (head * s.chunks + first) * s.begin_stride + (is_there ? tile : 0);
  std::int64_t const step = std::int64_t{kCountsOfThread} * s.begin_stride;
  ChunkCounts const kept(begins, s.begin_stride, chunks);
  TileList list{};
  kept.add_to(list);
  const std::uint16_t* at = begins;
  for (std::int32_t left = chunks - kCountsOfThread; left > 0; left -= kCountsOfThread) {
    at += step;
    ChunkCounts(at, s.begin_stride, left).add_to(list);
  }
  sums[warp_of()][lane_of()] = {list.records, list.segments};
  __syncthreads();
  TileList before{};
  for (int part = 0; part < warp_of(); ++part) {
    before.records += sums[part][lane_of()].x;
    before.segments += sums[part][lane_of()].y;
  }
  Segment* const segments = s.segments + of_head * s.chunks;
  auto const chunk_points = static_cast<std::uint32_t>(s.points_of_thread * kBinThreads);
  auto record = static_cast<std::uint32_t>(first) * chunk_points;
  kept.store(segments, record, chunk_points, before);
  at = begins;
  for (std::int32_t left = chunks - kCountsOfThread; left > 0; left -= kCountsOfThread) {
    at += step;
    record += kCountsOfThread * chunk_points;
    ChunkCounts(at, s.begin_stride, left).store(segments, record, chunk_points, before);
  }
  if (!is_there || warp_of() != kScanParts - 1) return;
  before.pieces = pieces_of(s, tile, before.records, static_cast<std::uint32_t>(s.piece_records));
  if (before.pieces > 0) {
    before.first_piece = atomicAdd(&s.piece_counts[head], before.pieces);  // any numbers do
    std::int32_t* const tiles = s.piece_tiles + head * s.max_pieces + before.first_piece;
    for (std::uint32_t i = 0; i < before.pieces; ++i) tiles[i] = tile;
  }
  s.lists[of_head] = before;
}

}  // namespace msda::sorted
