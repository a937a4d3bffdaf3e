// What a block has summed for a tile's pixels: to grad_value, to the borders of tiles or to the
// sums of pieces.
//
// `Sums` has the sums of a lane's four channels: `inner(x, y)` of a pixel that no other tile has,
// `any(x, y)` of every pixel.
#pragma once

#include "kernels/sorted/channels.cuh"
#include "kernels/sorted/piece.cuh"
#include "kernels/sorted/tile_lists.cuh"
#include "kernels/sorted/tile_pixels.cuh"

namespace msda::sorted {

// The first of the four channels that are quad `i` of shared memory, from the slice's first on.
template <class Config>
__device__ __forceinline__ int channel_of_quad(int i) {
  return i % Config::kLanes * kChannelsOfLane + i / Config::kLanes * 4;
}

// Of the sums of a tile's cells by corner.
template <class Config>
class CellSums {
 public:
  __device__ __forceinline__ CellSums(SumStorage<Config> const& shared, TileLevel const& level,
                                      int quad)
      : sums_(&shared.sums[0][0][quad]), width_(level.tile_width), height_(level.tile_height) {}

  // The pixel is the last corner of the first of its cells.
  __device__ __forceinline__ float4 inner(int x, int y) const {
    int const cell = y * width_ + x;
    float4 sum = of_cell(cell - width_ - 1, 3);
    add(sum, of_cell(cell - width_, 2));
    add(sum, of_cell(cell - 1, 1));
    add(sum, of_cell(cell, 0));
    return sum;
  }
  __device__ __forceinline__ float4 any(int x, int y) const {
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll
    for (int corner = 3; corner >= 0; --corner) {
      int const cell_x = x - (corner & 1);
      int const cell_y = y - (corner >> 1);
      if (cell_x < 0 || cell_y < 0 || cell_x >= width_ || cell_y >= height_) continue;
      add(sum, of_cell(cell_y * width_ + cell_x, corner));
    }
    return sum;
  }

 private:
  __device__ __forceinline__ float4 of_cell(int cell, int corner) const {
    return sums_[(cell * 4 + corner) * Config::kQuads];
  }
  const float4* sums_;
  int width_, height_;
};

// Lanes of neighbouring quads take a pixel, the block's threads as many pixels at a time.
template <class Config>
inline constexpr int kPixelsAtOnce = kSumThreads / Config::kQuads;

// Pixel `i` of those on the border of a tile: border_index is its inverse.
__device__ __forceinline__ int2 border_pixel(int width, int height, int i) {
  int const across = width + 1;
  int const side = i - 2 * across;
  if (side >= 0) return {(side & 1) != 0 ? width : 0, 1 + (side >> 1)};
  return {i < across ? i : i - across, i < across ? 0 : height};
}

template <class Config, class Sums>
__device__ __forceinline__ void store_border(Params const& p, ValueParams const& s,
                                             Sums const& sums, Piece const& piece,
                                             TileLevel const& level, int d) {
  int const width = level.tile_width;
  int const height = level.tile_height;
  int const head_dim = static_cast<int>(p.head_dim);
  float* const to = border_of(p, s, level, piece.head, piece.tile) + d;
  for (int i = static_cast<int>(threadIdx.x) / Config::kQuads; i < 2 * (width + height);
       i += kPixelsAtOnce<Config>) {
    int2 const at = border_pixel(width, height, i);
    *reinterpret_cast<float4*>(to + i * head_dim) = sums.any(at.x, at.y);
  }
}

// Those of its pixels that no other tile has. Eight of a row at a time, the rows' first to last.
template <class Config, class Sums>
__device__ __forceinline__ void store_inner(Params const& p, ValueParams const& s, Sums const& sums,
                                            Piece const& piece, TileLevel const& level, int d) {
  constexpr int kAcross = 8;
  constexpr int kRows = kPixelsAtOnce<Config> / kAcross;
  static_assert(kAcross >= kMaxTileSide - 1 && kRows > 0);
  int const slot = static_cast<int>(threadIdx.x) / Config::kQuads;
  std::int32_t const in_level = piece.tile - level.first_tile;
  std::int32_t const tile_y = in_level / level.tiles_across;
  std::int32_t const left = (in_level - tile_y * level.tiles_across) * level.tile_width - 1;
  std::int32_t const top = tile_y * level.tile_height - 1;
  int const x = 1 + slot % kAcross;
  int y = 1 + slot / kAcross;
  if (x >= min(level.tile_width, level.width - left)) return;
  int const end = min(level.tile_height, level.height - top);
  std::int64_t at = value_element(p, s, level, piece.head, left + x, top + y) + d;
  std::int64_t const step = kRows * level.row_tokens * p.head_count * p.head_dim;
  for (; y < end; y += kRows) {
    store_four(p.grad_value_dtype, p.grad_value, at, sums.inner(x, y), s.aligned_result);
    at += step;
  }
}

template <class Config, class Sums>
__device__ __forceinline__ void store_piece(Params const& p, ValueParams const& s, Sums const& sums,
                                            Piece const& piece, TileLevel const& level, int d) {
  int const across = level.tile_width + 1;
  int const pixels = across * (level.tile_height + 1);
  for (int i = static_cast<int>(threadIdx.x) / Config::kQuads; i < pixels;
       i += kPixelsAtOnce<Config>) {
    int const y = static_cast<int>(__umulhi(static_cast<std::uint32_t>(i), level.by_pixels));
    int const x = i - y * across;
    float* const to = piece_pixel(p, s, level, piece.head, piece.extra, x, y) + d;
    *reinterpret_cast<float4*>(to) = sums.any(x, y);
  }
}

// `sums` are those of the quad of this thread.
template <class Config, class Sums>
__device__ __forceinline__ void store_pixels(Params const& p, ValueParams const& s,
                                             Sums const& sums, Piece const& piece,
                                             TileLevel const& level, int quad) {
  int const d = piece.slice * kMaxSlice + channel_of_quad<Config>(quad);
  if (d >= p.head_dim) return;
  if (piece.extra >= 0) return store_piece<Config>(p, s, sums, piece, level, d);
  store_border<Config>(p, s, sums, piece, level, d);
  store_inner<Config>(p, s, sums, piece, level, d);
}

}  // namespace msda::sorted
