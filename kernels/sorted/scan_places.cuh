// Counts of chunks' points by tile to places in the head's list of records.
#pragma once

#include "kernels/common/shared.cuh"
#include "kernels/sorted/sorted.h"
#include "kernels/sorted/warps.cuh"

namespace msda::sorted {

// Counts of up to kCountsOfThread chunks of one tile, in registers.
struct ChunkCounts {
  std::uint32_t counts[kCountsOfThread];
  std::int32_t count;

  __device__ __forceinline__ ChunkCounts(const std::uint32_t* places, std::int32_t tiles,
                                         std::int32_t chunks)
      : count(min(chunks, kCountsOfThread)) {
#pragma unroll
    for (int j = 0; j < kCountsOfThread; ++j) {
      counts[j] = j < count ? places[static_cast<std::int64_t>(j) * tiles] : 0;
    }
  }
  __device__ __forceinline__ std::uint32_t sum() const {
    std::uint32_t all = 0;
#pragma unroll
    for (int j = 0; j < kCountsOfThread; ++j) all += counts[j];
    return all;
  }
  // Stores them as places, of which `before` is the first; then it is the one behind them.
  __device__ __forceinline__ void store(std::uint32_t* places, std::int32_t tiles,
                                        std::uint32_t& before) const {
#pragma unroll
    for (int j = 0; j < kCountsOfThread; ++j) {
      if (j < count) places[static_cast<std::int64_t>(j) * tiles] = before;
      before += counts[j];
    }
  }
};

// A lane a tile, a warp a part of the chunks: places of each chunk's points in the tile's list, and
// how long that is. The part's first counts are read once.
static __global__ void __launch_bounds__(kScanParts* kWarp, 2)
    scan_chunks(const __grid_constant__ ValueParams s) {
  MSDA_SHARED(std::uint32_t, sums, [kScanParts][kWarp]);
  ptx::wait_for_previous_grid();
  auto const groups = (static_cast<std::uint32_t>(s.tiles) + kWarp - 1) / kWarp;
  std::int64_t const head = blockIdx.x / groups;
  auto const tile = static_cast<std::int32_t>(blockIdx.x % groups * kWarp) + lane_of();
  bool const is_there = tile < s.tiles;
  std::int32_t const of_part = (s.chunks + kScanParts - 1) / kScanParts;
  std::int32_t const first = min(warp_of() * of_part, s.chunks);
  std::int32_t const chunks = is_there ? min(of_part, s.chunks - first) : 0;
  std::uint32_t* const places =
      s.places + (head * s.chunks + first) * s.tiles + (is_there ? tile : 0);
  std::int64_t const step = std::int64_t{kCountsOfThread} * s.tiles;
  ChunkCounts const kept(places, s.tiles, chunks);
  std::uint32_t sum = kept.sum();
  std::uint32_t* at = places;
  for (std::int32_t left = chunks - kCountsOfThread; left > 0; left -= kCountsOfThread) {
    at += step;
    sum += ChunkCounts(at, s.tiles, left).sum();
  }
  sums[warp_of()][lane_of()] = sum;
  __syncthreads();
  std::uint32_t before = 0;
  for (int part = 0; part < warp_of(); ++part) before += sums[part][lane_of()];
  kept.store(places, s.tiles, before);
  at = places;
  for (std::int32_t left = chunks - kCountsOfThread; left > 0; left -= kCountsOfThread) {
    at += step;
    ChunkCounts(at, s.tiles, left).store(at, s.tiles, before);
  }
  if (is_there && warp_of() == kScanParts - 1) s.starts[head * (s.tiles + 1) + tile] = before;
}

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

// A block a head: lengths of tiles' lists to their starts, and the pieces of tiles that have
// several.
static __global__ void __launch_bounds__(kScanThreads, 1)
    scan_tiles(const __grid_constant__ ValueParams s) {
  MSDA_SHARED(std::uint32_t, sums, [kWarp + 1]);
  ptx::wait_for_previous_grid();
  std::int64_t const first_tile = static_cast<std::int64_t>(blockIdx.x) * (s.tiles + 1);
  auto const most = static_cast<std::uint32_t>(s.piece_records);
  std::uint32_t records_before = 0;
  std::uint32_t pieces_before = 0;
  for (std::int64_t base = 0; base <= s.tiles; base += kScanThreads) {
    std::int64_t const tile = base + static_cast<int>(threadIdx.x);
    std::uint32_t const records = tile < s.tiles ? s.starts[first_tile + tile] : 0;
    std::uint32_t const pieces = pieces_of(s, tile, records, most);
    std::uint32_t const start = records_before + sum_before(records, sums);
    records_before += sums[kWarp];
    __syncthreads();
    std::uint32_t const first_piece = pieces_before + sum_before(pieces, sums);
    pieces_before += sums[kWarp];
    __syncthreads();
    if (tile > s.tiles) continue;
    s.starts[first_tile + tile] = start;
    s.pieces[first_tile + tile] = first_piece;
  }
}

}  // namespace msda::sorted
