// Points to records, ordered by tile and, within a tile, as they come: a stable counting sort, so
// that sums over a tile's list have the same order on every run.
//
// Four launches. `count` reads the coordinates (8 bytes a point) and counts a chunk's points by
// tile; `scan_chunks` and `scan_tiles` turn counts into places; `place` reads coordinates and
// weights (12 bytes), ranks a chunk's points with ballots and counters of each warp, orders their
// records in shared memory and writes them (16 bytes) in runs. 36 bytes a point, 24 of them read.
#pragma once

#include "kernels/common/sampling.cuh"
#include "kernels/common/shared.cuh"
#include "kernels/sorted/sorted.h"
#include "kernels/sorted/warps.cuh"

namespace msda::sorted {

// Where a point of a head lies.
struct Place {
  std::int32_t tile;  // -1: no corner is on the map
  std::uint32_t x;    // of Record
  std::uint32_t y;
};

// Cell in the tile << 24 | fraction * 2^24.
__device__ __forceinline__ std::uint32_t record_axis(std::uint32_t cell, float fraction) {
  // Just below a pixel line the fraction may have been rounded to 1.
  auto const units = static_cast<std::uint32_t>(fraction * 16777216.0f);
  return cell << 24 | min(units, 0xffffffu);
}

__device__ __forceinline__ Place place_of(Params const& p, ValueParams const& s, std::int64_t b,
                                          std::int64_t q, std::int64_t m, std::int64_t k) {
  std::int32_t const l = s.level_of_point[k];
  TileLevel const& level = s.levels[l];
  Point<float> const point = point_at<float>(p, PointRow(p, b, q, m), p.level(l), l, k);
  bool const near = point.is_number && point.x >= -1.0f && point.y >= -1.0f &&
                    point.x < static_cast<float>(level.width) &&
                    point.y < static_cast<float>(level.height);
  if (!near || level.tiles_across == 0) return {-1, 0, 0};
  float const left = floorf(point.x);
  float const top = floorf(point.y);
  auto const cell_x = static_cast<std::uint32_t>(static_cast<std::int32_t>(left) + 1);
  auto const cell_y = static_cast<std::uint32_t>(static_cast<std::int32_t>(top) + 1);
  std::uint32_t const tile_x = __umulhi(cell_x, level.by_width);
  std::uint32_t const tile_y = __umulhi(cell_y, level.by_height);
  auto const width = static_cast<std::uint32_t>(level.tile_width);
  auto const height = static_cast<std::uint32_t>(level.tile_height);
  return {level.first_tile + static_cast<std::int32_t>(tile_y) * level.tiles_across +
              static_cast<std::int32_t>(tile_x),
          record_axis(cell_x - tile_x * width, point.x - left),
          record_axis(cell_y - tile_y * height, point.y - top)};
}

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
    chunk = static_cast<std::int32_t>(blockIdx.x % chunks);
    std::uint32_t const rest = blockIdx.x / chunks;
    first_tile = static_cast<std::int32_t>(rest % windows) * s.window_tiles;
    tiles = min(s.window_tiles, s.tiles - first_tile);
    head = rest / windows;
    HeadIndex const index(p, s, head);
    b = index.b;
    m = index.m;
  }
  __device__ std::uint32_t first_point() const {
    return static_cast<std::uint32_t>(chunk) * kChunkPoints;
  }
  // The tile within the window, or -1.
  __device__ std::int32_t in_window(std::int32_t tile) const {
    std::int32_t const i = tile - first_tile;
    return tile >= first_tile && i < tiles ? i : -1;
  }
  // Of the chunk's points, by tile of the window.
  __device__ std::uint32_t* places(ValueParams const& s) const {
    return s.places + (head * s.chunks + chunk) * s.tiles + first_tile;
  }
};

static __global__ void __launch_bounds__(kBinThreads, 2)
    count_points(const __grid_constant__ Params p, const __grid_constant__ ValueParams s) {
  MSDA_DYNAMIC_SHARED(shared);
  auto* const counts = reinterpret_cast<std::uint32_t*>(shared);  // [tiles of the window]
  Chunk const chunk(p, s);
  for (int i = static_cast<int>(threadIdx.x); i < chunk.tiles; i += kBinThreads) counts[i] = 0;
  ptx::wait_for_previous_grid();
  __syncthreads();
#pragma unroll 2
  for (int j = 0; j < kPointsOfThread; ++j) {
    std::uint32_t const point = chunk.first_point() + j * kBinThreads + threadIdx.x;
    if (point >= static_cast<std::uint32_t>(s.points)) break;
    auto const K = static_cast<std::uint32_t>(p.point_total);
    Place const place = place_of(p, s, chunk.b, point / K, chunk.m, point % K);
    std::int32_t const tile = chunk.in_window(place.tile);
    if (tile >= 0) atomicAdd(&counts[tile], 1u);  // a number, whatever the order
  }
  __syncthreads();
  std::uint32_t* const places = chunk.places(s);
  for (int i = static_cast<int>(threadIdx.x); i < chunk.tiles; i += kBinThreads) {
    places[i] = counts[i];
  }
}

// A lane a tile, a warp a part of the chunks: places of each chunk's points in the tile's list, and
// how long that is.
static __global__ void __launch_bounds__(kScanParts* kWarp, 4)
    scan_chunks(const __grid_constant__ ValueParams s) {
  MSDA_SHARED(std::uint32_t, sums, [kScanParts][kWarp]);
  ptx::wait_for_previous_grid();
  auto const groups = (static_cast<std::uint32_t>(s.tiles) + kWarp - 1) / kWarp;
  std::int64_t const head = blockIdx.x / groups;
  auto const tile = static_cast<std::int32_t>(blockIdx.x % groups * kWarp) + lane_of();
  bool const is_there = tile < s.tiles;
  std::uint32_t* const places = s.places + head * s.chunks * s.tiles + tile;
  std::int32_t const of_part = (s.chunks + kScanParts - 1) / kScanParts;
  std::int32_t const first = min(warp_of() * of_part, s.chunks);
  std::int32_t const end = min(first + of_part, s.chunks);
  std::uint32_t sum = 0;
#pragma unroll 8
  for (std::int32_t chunk = first; chunk < end; ++chunk) {
    if (is_there) sum += places[static_cast<std::int64_t>(chunk) * s.tiles];
  }
  sums[warp_of()][lane_of()] = sum;
  __syncthreads();
  std::uint32_t before = 0;
  for (int part = 0; part < warp_of(); ++part) before += sums[part][lane_of()];
  if (!is_there) return;
  for (std::int32_t base = first; base < end; base += kCountsOfThread) {
    std::uint32_t* const to = places + static_cast<std::int64_t>(base) * s.tiles;
    std::uint32_t counts[kCountsOfThread];
#pragma unroll
    for (int j = 0; j < kCountsOfThread; ++j) {
      counts[j] = base + j < end ? to[static_cast<std::int64_t>(j) * s.tiles] : 0;
    }
#pragma unroll
    for (int j = 0; j < kCountsOfThread; ++j) {
      if (base + j < end) to[static_cast<std::int64_t>(j) * s.tiles] = before;
      before += counts[j];
    }
  }
  if (warp_of() == kScanParts - 1) s.starts[head * (s.tiles + 1) + tile] = before;
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
    std::uint32_t const pieces = records > most ? (records - 1) / most + 1 : 0;
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

// What a block has in shared memory while it orders a chunk's records.
struct Staged {
  Record* records;          // [kChunkPoints]
  std::int32_t* tiles;      // [kChunkPoints] of the window
  std::uint32_t* sums;      // [kWarp + 1]
  std::uint32_t* to;        // [tiles] where in the head's list, less where among the staged
  std::uint16_t* counters;  // [kBinWarps][tiles]

  __device__ Staged(char* shared, ValueParams const& s)
      : records(reinterpret_cast<Record*>(shared)),
        tiles(reinterpret_cast<std::int32_t*>(records + kChunkPoints)),
        sums(reinterpret_cast<std::uint32_t*>(tiles + kChunkPoints)),
        to(sums + kWarp + 1),
        counters(reinterpret_cast<std::uint16_t*>(to + s.window_tiles)) {}
};

// Counts of (tile, warp) to places among the staged records; the number of these.
__device__ __forceinline__ std::uint32_t order_tiles(ValueParams const& s, Chunk const& chunk,
                                                     Staged const& staged) {
  const std::uint32_t* const places = chunk.places(s);
  const std::uint32_t* const starts = s.starts + chunk.head * (s.tiles + 1) + chunk.first_tile;
  std::uint32_t before = 0;
  for (int base = 0; base < chunk.tiles; base += kBinThreads) {
    int const tile = base + static_cast<int>(threadIdx.x);
    std::uint32_t n = 0;
    if (tile < chunk.tiles) {
      for (int w = 0; w < kBinWarps; ++w) n += staged.counters[w * s.window_tiles + tile];
    }
    std::uint32_t at = before + sum_before(n, staged.sums);
    if (tile < chunk.tiles) {
      staged.to[tile] = starts[tile] + places[tile] - at;
      for (int w = 0; w < kBinWarps; ++w) {
        std::uint16_t& counter = staged.counters[w * s.window_tiles + tile];
        std::uint32_t const of_warp = counter;
        counter = static_cast<std::uint16_t>(at);
        at += of_warp;
      }
    }
    before += staged.sums[kWarp];
    __syncthreads();
  }
  return before;
}

__device__ __forceinline__ float weight_of(Params const& p, ValueParams const& s,
                                           Chunk const& chunk, std::int64_t q, std::int64_t k) {
  if (s.weights != nullptr) return s.weights[chunk.head * s.points + q * p.point_total + k];
  return load_narrow(p.weight_dtype, p.weight, p.weight_strides.at(chunk.b, q, chunk.m) + k);
}

static __global__ void __launch_bounds__(kBinThreads, 2)
    place_points(const __grid_constant__ Params p, const __grid_constant__ ValueParams s) {
  MSDA_DYNAMIC_SHARED(shared);
  Staged const staged(shared, s);
  Chunk const chunk(p, s);
  auto* const words = reinterpret_cast<std::uint32_t*>(staged.counters);
  int const word_count = kBinWarps * s.window_tiles / 2;
  for (int i = static_cast<int>(threadIdx.x); i < word_count; i += kBinThreads) words[i] = 0;
  ptx::wait_for_previous_grid();
  __syncthreads();
  std::uint16_t* const mine = staged.counters + warp_of() * s.window_tiles;
  std::uint32_t x[kPointsOfThread], y[kPointsOfThread];  // of Record
  float weights[kPointsOfThread];
  std::uint32_t ranks[kPointsOfThread];  // tile << 16 | rank in the warp; all ones: not here
  auto const K = static_cast<std::uint32_t>(p.point_total);
  // A warp's points are neighbours, so that the order of ranks is that of points.
  std::uint32_t const first =
      chunk.first_point() + warp_of() * (kPointsOfThread * kWarp) + lane_of();
#pragma unroll
  for (int j = 0; j < kPointsOfThread; ++j) {
    std::uint32_t const point = first + j * kWarp;
    std::int32_t tile = -1;
    if (point < static_cast<std::uint32_t>(s.points)) {
      std::uint32_t const q = point / K;
      std::uint32_t const k = point % K;
      Place const place = place_of(p, s, chunk.b, q, chunk.m, k);
      tile = chunk.in_window(place.tile);
      x[j] = place.x;
      y[j] = place.y;
      weights[j] = tile < 0 ? 0.0f : weight_of(p, s, chunk, q, k);
    }
    auto const key = static_cast<std::uint32_t>(tile);
    std::uint32_t const rank = rank_in_warp(mine, tile >= 0, key, s.tile_bits);
    ranks[j] = tile < 0 ? ~0u : key << 16 | rank;
  }
  __syncthreads();
  std::uint32_t const count = order_tiles(s, chunk, staged);
#pragma unroll
  for (int j = 0; j < kPointsOfThread; ++j) {
    if (ranks[j] == ~0u) continue;
    std::uint32_t const tile = ranks[j] >> 16;
    std::uint32_t const at = mine[tile] + (ranks[j] & 0xffffu);
    // The query once more: kept, it would take registers that there are not.
    staged.records[at] = {x[j], y[j], weights[j], (first + j * kWarp) / K};
    staged.tiles[at] = static_cast<std::int32_t>(tile);
  }
  __syncthreads();
  Record* const list = s.records + chunk.head * s.points;
  for (std::uint32_t i = threadIdx.x; i < count; i += kBinThreads) {
    list[staged.to[staged.tiles[i]] + i] = staged.records[i];
  }
}

}  // namespace msda::sorted
