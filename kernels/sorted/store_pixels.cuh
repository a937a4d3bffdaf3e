// What a block or a warp has summed for a tile's pixels: to grad_value, to the borders of tiles or
// to the sums of pieces.
#pragma once

#include "kernels/sorted/channels.cuh"
#include "kernels/sorted/piece.cuh"
#include "kernels/sorted/tile_lists.cuh"
#include "kernels/sorted/tile_pixels.cuh"

namespace msda::sorted {

// What a block's threads have of a tile's pixels where they are stored: a quad of channels each.
template <class Config>
class BlockPixels {
 public:
  static constexpr int kThreads = kSumThreads;

  __device__ __forceinline__ explicit BlockPixels(SumStorage<Config> const& shared)
      : shared_(shared) {}
  __device__ __forceinline__ static int thread() { return static_cast<int>(threadIdx.x); }
  // The first one of a quad, from the slice's first on.
  __device__ __forceinline__ static int channel(int quad) {
    return quad % Config::kLanes * kChannelsOfLane + quad / Config::kLanes * 4;
  }
  __device__ __forceinline__ float4 operator()(int x, int y, int quad) const {
    return sum_of_pixel(shared_, x, y, quad);
  }

 private:
  SumStorage<Config> const& shared_;
};

// Lanes of neighbouring quads take a pixel, all threads as many pixels at a time.
template <class Config, class Pixels>
inline constexpr int kPixelsAtOnce = Pixels::kThreads / Config::kQuads;
template <class Config, class Pixels>
__device__ __forceinline__ int first_pixel() {
  return Pixels::thread() / Config::kQuads;
}

// Pixel `i` of those on the border of a tile: border_index is its inverse.
__device__ __forceinline__ int2 border_pixel(int width, int height, int i) {
  int const across = width + 1;
  int const side = i - 2 * across;
  if (side >= 0) return {(side & 1) != 0 ? width : 0, 1 + (side >> 1)};
  return {i < across ? i : i - across, i < across ? 0 : height};
}

template <class Config, class Pixels>
__device__ __forceinline__ void store_border(Params const& p, ValueParams const& s,
                                             Pixels const& pixels, Piece const& piece,
                                             TileLevel const& level, int quad, int d) {
  int const width = level.tile_width;
  int const height = level.tile_height;
  int const head_dim = static_cast<int>(p.head_dim);
  float* const to = border_of(p, s, level, piece.head, piece.tile) + d;
  for (int i = first_pixel<Config, Pixels>(); i < 2 * (width + height);
       i += kPixelsAtOnce<Config, Pixels>) {
    int2 const at = border_pixel(width, height, i);
    *reinterpret_cast<float4*>(to + i * head_dim) = pixels(at.x, at.y, quad);
  }
}

// Those of its pixels that no other tile has, the rows' first to last: a row is as many threads
// wide as there can be pixels, or less where there are not so many.
template <class Config, class Pixels>
__device__ __forceinline__ void store_inner(Params const& p, ValueParams const& s,
                                            Pixels const& pixels, Piece const& piece,
                                            TileLevel const& level, int quad, int d) {
  constexpr int kAcross = kPixelsAtOnce<Config, Pixels> < 8 ? kPixelsAtOnce<Config, Pixels> : 8;
  constexpr int kRows = kPixelsAtOnce<Config, Pixels> / kAcross;
  constexpr int kInRow = (kMaxTileSide - 1 + kAcross - 1) / kAcross;  // of a thread
  int const slot = first_pixel<Config, Pixels>();
  std::int32_t const in_level = piece.tile - level.first_tile;
  std::int32_t const tile_y = in_level / level.tiles_across;
  std::int32_t const left = (in_level - tile_y * level.tiles_across) * level.tile_width - 1;
  std::int32_t const top = tile_y * level.tile_height - 1;
  int const x = 1 + slot % kAcross;
  int y = 1 + slot / kAcross;
  int const width = min(level.tile_width, level.width - left);
  if (x >= width) return;
  int const end = min(level.tile_height, level.height - top);
  std::int64_t at = value_element(p, s, level, piece.head, left + x, top + y) + d;
  std::int64_t const step = kRows * level.row_tokens * p.head_count * p.head_dim;
  for (; y < end; y += kRows) {
    store_four(p.grad_value_dtype, p.grad_value, at, pixels(x, y, quad), s.aligned_result);
    if constexpr (kInRow > 1) {
#pragma unroll
      for (int i = 1; i < kInRow; ++i) {
        if (x + i * kAcross >= width) continue;
        store_four(p.grad_value_dtype, p.grad_value, at + i * kAcross * p.head_count * p.head_dim,
                   pixels(x + i * kAcross, y, quad), s.aligned_result);
      }
    }
    at += step;
  }
}

template <class Config, class Pixels>
__device__ __forceinline__ void store_piece(Params const& p, ValueParams const& s,
                                            Pixels const& sums, Piece const& piece,
                                            TileLevel const& level, int quad, int d) {
  int const across = level.tile_width + 1;
  int const pixels = across * (level.tile_height + 1);
  for (int i = first_pixel<Config, Pixels>(); i < pixels; i += kPixelsAtOnce<Config, Pixels>) {
    int const y = static_cast<int>(__umulhi(static_cast<std::uint32_t>(i), level.by_pixels));
    int const x = i - y * across;
    float* const to = piece_pixel(p, s, level, piece.head, piece.extra, x, y) + d;
    *reinterpret_cast<float4*>(to) = sums(x, y, quad);
  }
}

// All threads that have sums.
template <class Config, class Pixels>
__device__ __forceinline__ void store_pixels(Params const& p, ValueParams const& s,
                                             Pixels const& pixels, Piece const& piece,
                                             TileLevel const& level) {
  int const quad = Pixels::thread() % Config::kQuads;
  int const d = piece.slice * kMaxSlice + Pixels::channel(quad);
  if (d >= p.head_dim) return;
  if (piece.extra >= 0) return store_piece<Config>(p, s, pixels, piece, level, quad, d);
  store_border<Config>(p, s, pixels, piece, level, quad, d);
  store_inner<Config>(p, s, pixels, piece, level, quad, d);
}

}  // namespace msda::sorted
