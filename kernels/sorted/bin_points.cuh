// Points to records, ordered by tile and, within a tile, as they come: a stable counting sort, so
// that sums over a tile's list have the same order on every run.
//
// Two launches. `place` reads coordinates and weights (12 bytes a point of F32), ranks a chunk's
// points with ballots and counters of each warp, orders their records by tile in shared memory and
// writes them (16 bytes) side by side; with them goes where the records of each tile begin. What
// the chunks have of a tile are the segments of its list, which `list_segments` (list_segments.cuh)
// finds. Where chunks are small, records go straight to their places.
#pragma once

#include "kernels/common/sampling.cuh"
#include "kernels/common/shared.cuh"
#include "kernels/sorted/channels.cuh"
#include "kernels/sorted/chunks.cuh"
#include "kernels/sorted/sorted.h"
#include "kernels/sorted/warps.cuh"

namespace msda::sorted {

// Where a point of a head lies.
struct Place {
  bool is_in_window;
  bool is_earlier;     // in an earlier window
  std::uint32_t tile;  // of the window
  std::uint32_t x;     // of Record
  std::uint32_t y;
};

// Cell in the tile << 24 | fraction * 2^24.
__device__ __forceinline__ std::uint32_t record_axis(std::uint32_t cell, float fraction) {
  // Just below a pixel line the fraction may have been rounded to 1.
  auto const units = static_cast<std::uint32_t>(fraction * 16777216.0f);
  return cell << 24 | min(units, 0xffffffu);
}

// A position on an axis. What is far away or no number has a cell beyond those of any map.
struct AxisPlace {
  std::uint32_t cell;
  float fraction;
};

// kPlain: on a map of at most kLargestPlainSide.
template <bool kPlain>
__device__ __forceinline__ AxisPlace axis_place(float x) {
  if constexpr (kPlain) {
    // From 2^23 to 2^24 the numbers are the integers: rounded down, the sum is 2^23 and the cell.
    float const sum = __fadd_rd(x, 0x1p23f + 1.0f);
    return {__float_as_uint(sum) - __float_as_uint(0x1p23f), x - (sum - (0x1p23f + 1.0f))};
  }
  float const left = floorf(x);
  bool const fits = left >= -1.0f && left <= 0x1p25f;
  return {fits ? static_cast<std::uint32_t>(static_cast<std::int32_t>(left) + 1) : ~0u, x - left};
}

// The queries of a thread's points of a chunk, kWarp from one to the next: a warp's are neighbours.
// kPlain: K divides kWarp, so that all have the same k.
template <bool kPlain>
struct QueryWalk {
  std::int32_t left;  // points of the warp's part of the chunk, from this one on
  std::uint32_t q, k;

  __device__ __forceinline__ QueryWalk(Params const& p, ValueParams const& s, Chunk const& chunk) {
    auto const points = static_cast<std::uint32_t>(p.point_total);
    auto const of_warp = static_cast<std::uint32_t>(s.points_of_thread) * kWarp;
    std::uint32_t const begin =
        (static_cast<std::uint32_t>(chunk.chunk) * kBinWarps + warp_of()) * of_warp;
    std::uint32_t const point = begin + lane_of();
    left = min(static_cast<std::int32_t>(static_cast<std::uint32_t>(s.points) - point),
               static_cast<std::int32_t>(of_warp) - lane_of());
    q = kPlain ? point >> (__ffs(static_cast<int>(points)) - 1) : point / points;
    k = point - q * points;
  }
  __device__ __forceinline__ bool is_there() const { return left > 0; }
  __device__ __forceinline__ void advance(Params const& p, ValueParams const& s) {
    auto const points = static_cast<std::uint32_t>(p.point_total);
    left -= kWarp;
    q += s.step_queries;
    if (kPlain || s.step_points == 0) return;
    k += s.step_points;
    if (k < points) return;
    k -= points;
    ++q;
  }
};

// Where a thread's points lie. All loads are under way before the first is waited for, where
// coordinates are pairs of F32; kPlain: they are.
template <bool kPlain>
class Positions {
 public:
  __device__ __forceinline__ Positions(Params const& p, ValueParams const& s, Chunk const& chunk)
      : in_pixels_(!kPlain &&
                   (p.reference_dim != 0 || p.coord_dtype != MSDA_DTYPE_F32 || !s.coord_pairs)) {
    float const nowhere = __uint_as_float(0x7fc00000u);  // NaN
    std::int64_t const first = p.coord_strides.at(chunk.b, 0, chunk.m);
    QueryWalk<kPlain> walk(p, s, chunk);
    if (!in_pixels_) {
      const float* const coord = static_cast<const float*>(p.coord) + first;
      const float* at = coord + walk.q * p.coord_strides.row + 2 * std::int64_t{walk.k};
#pragma unroll
      for (int j = 0; j < kPointsOfThread; ++j) {
        at_[j] = {nowhere, nowhere};
        if (walk.is_there()) at_[j] = *reinterpret_cast<const float2*>(at);
        walk.advance(p, s);
        if constexpr (kPlain) {
          at += s.step_queries * p.coord_strides.row;
        } else {
          at = coord + walk.q * p.coord_strides.row + 2 * std::int64_t{walk.k};
        }
      }
      return;
    }
#pragma unroll
    for (int j = 0; j < kPointsOfThread; ++j) {
      at_[j] = {nowhere, nowhere};
      if (walk.is_there()) {
        std::int32_t const l = s.level_of_point[walk.k];
        Point<float> const point =
            point_at<float>(p, PointRow(p, chunk.b, walk.q, chunk.m), p.level(l), l, walk.k);
        if (point.is_number) at_[j] = {point.x, point.y};
      }
      walk.advance(p, s);
    }
  }
  // Of a level of this size, in pixels. What is no number lies nowhere.
  __device__ __forceinline__ float2 pixel(int j, float width, float height) const {
    if (in_pixels_) return at_[j];
    return {to_pixel(at_[j].x, width), to_pixel(at_[j].y, height)};
  }

 private:
  bool in_pixels_;
  float2 at_[kPointsOfThread];
};

// The levels of a thread's points. Looked up once where kWarp is a multiple of K.
template <bool kPlain>
class LevelWalk : QueryWalk<kPlain> {
 public:
  __device__ __forceinline__ LevelWalk(Params const& p, ValueParams const& s, Chunk const& chunk)
      : QueryWalk<kPlain>(p, s, chunk), p_(p), s_(s), chunk_(chunk) {
    set_level();
  }
  __device__ __forceinline__ void advance() {
    if constexpr (!kPlain) {
      QueryWalk<kPlain>::advance(p_, s_);
      if (s_.step_points != 0) set_level();
    }
  }
  // Of a warp: those whose points can be in the same tile as the lane's.
  __device__ __forceinline__ std::uint32_t lanes_of_level() const {
    if constexpr (!kPlain) return kAllLanes;
    return __match_any_sync(kAllLanes, first_tile_);
  }

  // Of the thread's point `j`, which is the one that the walk is at.
  __device__ __forceinline__ Place place(Positions<kPlain> const& positions, int j) const {
    float2 const at = positions.pixel(j, width_, height_);
    AxisPlace const across = axis_place<kPlain>(at.x);
    AxisPlace const down = axis_place<kPlain>(at.y);
    std::uint32_t const tile_x = __umulhi(across.cell, by_width_);
    std::uint32_t const tile_y = __umulhi(down.cell, by_height_);
    std::uint32_t const tile = first_tile_ + tile_y * tiles_across_ + tile_x;
    bool const is_on_map = across.cell < cells_across_ && down.cell < cells_down_;
    return {is_on_map && tile < static_cast<std::uint32_t>(chunk_.tiles),
            is_on_map && static_cast<std::int32_t>(tile) < 0, tile,
            record_axis(across.cell - tile_x * (tile_size_ & 0xffffu), across.fraction),
            record_axis(down.cell - tile_y * (tile_size_ >> 16), down.fraction)};
  }

 private:
  __device__ __forceinline__ void set_level() {
    TileLevel const& level = s_.levels[s_.level_of_point[this->k]];
    width_ = static_cast<float>(level.width);
    height_ = static_cast<float>(level.height);
    // Of an empty map there are none.
    cells_across_ = level.tiles_across == 0 ? 0 : static_cast<std::uint32_t>(level.width) + 1;
    cells_down_ = static_cast<std::uint32_t>(level.height) + 1;
    tile_size_ = static_cast<std::uint32_t>(level.tile_height << 16 | level.tile_width);
    by_width_ = level.by_width;
    by_height_ = level.by_height;
    tiles_across_ = static_cast<std::uint32_t>(level.tiles_across);
    first_tile_ = static_cast<std::uint32_t>(level.first_tile - chunk_.first_tile);
  }

  Params const& p_;
  ValueParams const& s_;
  Chunk const& chunk_;
  // Of the level of point k.
  float width_, height_;
  std::uint32_t cells_across_, cells_down_;
  std::uint32_t tile_size_;  // height << 16 | width
  std::uint32_t by_width_, by_height_;
  std::uint32_t tiles_across_;
  std::uint32_t first_tile_;  // less that of the window
};

// The weights of those of a thread's points that have a rank, as they are in memory: on their way
// until they are asked for.
template <bool kPlain>
class Weights {
 public:
  __device__ __forceinline__ Weights(Params const& p, ValueParams const& s, Chunk const& chunk,
                                     std::uint32_t const (&ranks)[kPointsOfThread])
      : dtype_(!kPlain && s.weights != nullptr ? MSDA_DTYPE_F32 : p.weight_dtype) {
    bool const computed = !kPlain && s.weights != nullptr;
    const void* const weights = computed ? s.weights : p.weight;
    std::int64_t const row = computed ? p.point_total : p.weight_strides.row;
    std::int64_t const first =
        computed ? chunk.head * s.points : p.weight_strides.at(chunk.b, 0, chunk.m);
    QueryWalk<kPlain> walk(p, s, chunk);
    if (dtype_ == MSDA_DTYPE_F32) {
      load(p, s, static_cast<const std::uint32_t*>(weights) + first, row, walk, ranks);
    } else {
      load(p, s, static_cast<const std::uint16_t*>(weights) + first, row, walk, ranks);
    }
  }
  __device__ __forceinline__ float operator[](int j) const {
    if (dtype_ == MSDA_DTYPE_F32) return __uint_as_float(bits_[j]);
    if (dtype_ == MSDA_DTYPE_BF16) return __uint_as_float(bits_[j] << 16);
    return __half2float(__ushort_as_half(static_cast<std::uint16_t>(bits_[j])));
  }

 private:
  template <typename Word>
  __device__ __forceinline__ void load(Params const& p, ValueParams const& s, const Word* weights,
                                       std::int64_t row, QueryWalk<kPlain>& walk,
                                       std::uint32_t const (&ranks)[kPointsOfThread]) {
    const Word* at = weights + walk.q * row + walk.k;
#pragma unroll
    for (int j = 0; j < kPointsOfThread; ++j) {
      bits_[j] = 0;
      if (ranks[j] != ~0u) bits_[j] = *at;
      if constexpr (kPlain) {
        at += s.step_queries * row;
      } else {
        walk.advance(p, s);
        at = weights + walk.q * row + walk.k;
      }
    }
  }
  msda_dtype dtype_;
  std::uint32_t bits_[kPointsOfThread];
};

template <bool kPlain>
static __global__ void __launch_bounds__(kBinThreads, kBinBlocks)
    place_points(const __grid_constant__ Params p, const __grid_constant__ ValueParams s) {
  MSDA_DYNAMIC_SHARED(shared);
  Staged const staged(shared, s);
  Chunk const chunk(p, s);
  staged.clear();
  ptx::wait_for_previous_grid();
  if (chunk.is_first() && threadIdx.x == 0) s.piece_counts[chunk.head] = 0;
  Positions<kPlain> const positions(p, s, chunk);
  __syncthreads();
  std::uint16_t* const mine = staged.of_warp();
  std::uint32_t x[kPointsOfThread], y[kPointsOfThread];  // of Record
  std::uint32_t ranks[kPointsOfThread];  // tile << 16 | rank in the warp; all ones: not here
  LevelWalk<kPlain> walk(p, s, chunk);
  std::uint32_t const lanes = walk.lanes_of_level();
  // A warp's points are neighbours, so that the order of ranks is that of points.
#pragma unroll
  for (int j = 0; j < kPointsOfThread; ++j) {
    ranks[j] = ~0u;
    if (j >= s.points_of_thread) continue;
    Place const place = walk.place(positions, j);
    x[j] = place.x;
    y[j] = place.y;
    walk.advance();
    if (chunk.first_tile > 0) {
      std::uint32_t const earlier = __ballot_sync(kAllLanes, place.is_earlier);
      if (lane_of() == 0) atomicAdd(staged.earlier, __popc(earlier));  // whatever the order
    }
    bool const is_there = place.is_in_window;
    std::uint32_t const tile = is_there ? place.tile : 0;
    std::uint32_t same = lanes & __ballot_sync(kAllLanes, is_there);
    same = lanes_in_same_tile<kFewTileBits>(same, tile);
    if (!kPlain || s.level_tile_bits > kFewTileBits) {
      same = lanes_in_same_tile<kTileBits - kFewTileBits>(same, tile >> kFewTileBits);
    }
    std::uint32_t const rank = rank_in_tile(mine, same, is_there, tile);
    if (is_there) ranks[j] = tile << 16 | rank;
  }
  Weights<kPlain> const weights(p, s, chunk, ranks);  // under way while the tiles are ordered
  __syncthreads();
  std::uint32_t const end = staged.order_tiles(s, chunk);
  __syncthreads();
  // The queries once more: kept, they would take registers that there are not.
  QueryWalk<kPlain> queries(p, s, chunk);
  Record* const list = s.records + chunk.head * s.points +
                       std::int64_t{chunk.chunk} * s.points_of_thread * kBinThreads;
#pragma unroll
  for (int j = 0; j < kPointsOfThread; ++j) {
    if (ranks[j] != ~0u) {
      std::uint32_t const tile = ranks[j] >> 16;
      std::uint32_t const at = mine[tile] + (ranks[j] & 0xffffu);
      Record const record = {x[j], y[j], weights[j], queries.q};
      if (s.stages_records) {
        staged.records[at] = record;
      } else {
        list[at] = record;
      }
    }
    queries.advance(p, s);
  }
  if (!s.stages_records) return;
  __syncthreads();
  for (std::uint32_t i = *staged.earlier + threadIdx.x; i < end; i += kBinThreads) {
    list[i] = staged.records[i];
  }
}

}  // namespace msda::sorted
