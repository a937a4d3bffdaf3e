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
#include "kernels/sorted/channels.cuh"
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

// The queries of a thread's points of a chunk, kWarp from one to the next: a warp's are neighbours.
struct QueryWalk {
  std::int32_t left;  // points of the head, from this one on
  std::uint32_t q, k;

  __device__ __forceinline__ QueryWalk(Params const& p, ValueParams const& s, Chunk const& chunk) {
    auto const points = static_cast<std::uint32_t>(p.point_total);
    std::uint32_t const point =
        chunk.first_point() + warp_of() * (kPointsOfThread * kWarp) + lane_of();
    left = static_cast<std::int32_t>(static_cast<std::uint32_t>(s.points) - point);
    q = point / points;
    k = point % points;
  }
  __device__ __forceinline__ bool is_there() const { return left > 0; }
  __device__ __forceinline__ void advance(Params const& p, ValueParams const& s) {
    auto const points = static_cast<std::uint32_t>(p.point_total);
    left -= kWarp;
    q += s.step_queries;
    if (s.step_points == 0) return;
    k += s.step_points;
    if (k < points) return;
    k -= points;
    ++q;
  }
};

// The points themselves. Their level is looked up once where kWarp is a multiple of K.
class PointWalk : QueryWalk {
 public:
  __device__ __forceinline__ PointWalk(Params const& p, ValueParams const& s, Chunk const& chunk)
      : QueryWalk(p, s, chunk),
        p_(p),
        s_(s),
        chunk_(chunk),
        coord_(p.coord_strides.at(chunk.b, 0, chunk.m)) {
    set_level();
  }
  using QueryWalk::is_there;
  __device__ __forceinline__ void advance() {
    QueryWalk::advance(p_, s_);
    if (s_.step_points != 0) set_level();
  }

  __device__ __forceinline__ Place place() const {
    Point<float> const point = position();
    bool const near = point.is_number && point.x >= -1.0f && point.y >= -1.0f && point.x < width_ &&
                      point.y < height_;
    if (!near || tiles_across_ == 0) return {-1, 0, 0};
    float const left = floorf(point.x);
    float const top = floorf(point.y);
    auto const cell_x = static_cast<std::uint32_t>(static_cast<std::int32_t>(left) + 1);
    auto const cell_y = static_cast<std::uint32_t>(static_cast<std::int32_t>(top) + 1);
    std::uint32_t const tile_x = __umulhi(cell_x, by_width_);
    std::uint32_t const tile_y = __umulhi(cell_y, by_height_);
    return {first_tile_ + static_cast<std::int32_t>(tile_y) * tiles_across_ +
                static_cast<std::int32_t>(tile_x),
            record_axis(cell_x - tile_x * (tile_size_ & 0xffffu), point.x - left),
            record_axis(cell_y - tile_y * (tile_size_ >> 16), point.y - top)};
  }

 private:
  __device__ __forceinline__ void set_level() {
    TileLevel const& level = s_.levels[s_.level_of_point[k]];
    width_ = static_cast<float>(level.width);
    height_ = static_cast<float>(level.height);
    tile_size_ = static_cast<std::uint32_t>(level.tile_height << 16 | level.tile_width);
    by_width_ = level.by_width;
    by_height_ = level.by_height;
    tiles_across_ = level.tiles_across;
    first_tile_ = level.first_tile;
  }
  __device__ __forceinline__ Point<float> position() const {
    if (p_.reference_dim != 0) {
      std::int32_t const l = s_.level_of_point[k];
      return point_at<float>(p_, PointRow(p_, chunk_.b, q, chunk_.m), p_.level(l), l, k);
    }
    float2 const at = load_pair(p_.coord_dtype, p_.coord, coord_ + q * p_.coord_strides.row + 2 * k,
                                s_.coord_pairs);
    float const check = zero_if_number(at.x) + zero_if_number(at.y);
    return {to_pixel(at.x, width_), to_pixel(at.y, height_), check == check};
  }

  Params const& p_;
  ValueParams const& s_;
  Chunk const& chunk_;
  std::int64_t coord_;  // element where the head's first row begins
  // Of the level of point k.
  float width_, height_;
  std::uint32_t tile_size_;  // height << 16 | width
  std::uint32_t by_width_, by_height_;
  std::int32_t tiles_across_, first_tile_;
};

static __global__ void __launch_bounds__(kBinThreads, 2)
    count_points(const __grid_constant__ Params p, const __grid_constant__ ValueParams s) {
  MSDA_DYNAMIC_SHARED(shared);
  auto* const counts = reinterpret_cast<std::uint32_t*>(shared);  // [tiles of the window]
  Chunk const chunk(p, s);
  for (int i = static_cast<int>(threadIdx.x); i < chunk.tiles; i += kBinThreads) counts[i] = 0;
  ptx::wait_for_previous_grid();
  __syncthreads();
  PointWalk walk(p, s, chunk);
#pragma unroll 4
  for (int j = 0; j < kPointsOfThread; ++j) {
    if (!walk.is_there()) break;
    std::int32_t const tile = chunk.in_window(walk.place().tile);
    if (tile >= 0) atomicAdd(&counts[tile], 1u);  // a number, whatever the order
    walk.advance();
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
                                           Chunk const& chunk, QueryWalk const& at) {
  if (s.weights != nullptr) {
    return s.weights[chunk.head * s.points + std::int64_t{at.q} * p.point_total + at.k];
  }
  return load_narrow(p.weight_dtype, p.weight, p.weight_strides.at(chunk.b, at.q, chunk.m) + at.k);
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
  std::uint32_t ranks[kPointsOfThread];  // tile << 16 | rank in the warp; all ones: not here
  // A warp's points are neighbours, so that the order of ranks is that of points.
  PointWalk walk(p, s, chunk);
#pragma unroll
  for (int j = 0; j < kPointsOfThread; ++j) {
    std::int32_t tile = -1;
    if (walk.is_there()) {
      Place const place = walk.place();
      tile = chunk.in_window(place.tile);
      x[j] = place.x;
      y[j] = place.y;
    }
    walk.advance();
    auto const key = static_cast<std::uint32_t>(tile);
    std::uint32_t const rank = rank_in_warp(mine, tile >= 0, key, s.tile_bits);
    ranks[j] = tile < 0 ? ~0u : key << 16 | rank;
  }
  float weights[kPointsOfThread];  // under way while the tiles are ordered
  QueryWalk of_weight(p, s, chunk);
#pragma unroll
  for (int j = 0; j < kPointsOfThread; ++j) {
    weights[j] = ranks[j] == ~0u ? 0.0f : weight_of(p, s, chunk, of_weight);
    of_weight.advance(p, s);
  }
  __syncthreads();
  std::uint32_t const count = order_tiles(s, chunk, staged);
  // The queries once more: kept, they would take registers that there are not.
  QueryWalk queries(p, s, chunk);
#pragma unroll
  for (int j = 0; j < kPointsOfThread; ++j) {
    if (ranks[j] != ~0u) {
      std::uint32_t const tile = ranks[j] >> 16;
      std::uint32_t const at = mine[tile] + (ranks[j] & 0xffffu);
      staged.records[at] = {x[j], y[j], weights[j], queries.q};
      staged.tiles[at] = static_cast<std::int32_t>(tile);
    }
    queries.advance(p, s);
  }
  __syncthreads();
  Record* const list = s.records + chunk.head * s.points;
  for (std::uint32_t i = threadIdx.x; i < count; i += kBinThreads) {
    list[staged.to[staged.tiles[i]] + i] = staged.records[i];
  }
}

}  // namespace msda::sorted
