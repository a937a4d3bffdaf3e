// What a block has summed for a tile's pixels: to grad_value, to the borders of tiles or to the
// sums of pieces.
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

template <class Config>
__device__ __forceinline__ void store_border(Params const& p, ValueParams const& s,
                                             SumStorage<Config> const& shared, Piece const& piece,
                                             TileLevel const& level, int quad, int d) {
  int const width = level.tile_width;
  int const height = level.tile_height;
  int const head_dim = static_cast<int>(p.head_dim);
  float* const to = border_of(p, s, level, piece.head, piece.tile) + d;
  for (int i = static_cast<int>(threadIdx.x) / Config::kQuads; i < 2 * (width + height);
       i += kPixelsAtOnce<Config>) {
    int2 const at = border_pixel(width, height, i);
    *reinterpret_cast<float4*>(to + i * head_dim) = sum_of_pixel(shared, at.x, at.y, quad);
  }
}

// Those of its pixels that no other tile has. Eight of a row at a time, the rows' first to last.
template <class Config>
__device__ __forceinline__ void store_inner(Params const& p, ValueParams const& s,
                                            SumStorage<Config> const& shared, Piece const& piece,
                                            TileLevel const& level, int quad, int d) {
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
    store_four(p.grad_value_dtype, p.grad_value, at, sum_of_pixel(shared, x, y, quad),
               s.aligned_result);
    at += step;
  }
}

template <class Config>
__device__ __forceinline__ void store_piece(Params const& p, ValueParams const& s,
                                            SumStorage<Config> const& shared, Piece const& piece,
                                            TileLevel const& level, int quad, int d) {
  int const across = level.tile_width + 1;
  int const pixels = across * (level.tile_height + 1);
  for (int i = static_cast<int>(threadIdx.x) / Config::kQuads; i < pixels;
       i += kPixelsAtOnce<Config>) {
    int const y = static_cast<int>(__umulhi(static_cast<std::uint32_t>(i), level.by_pixels));
    int const x = i - y * across;
    float* const to = piece_pixel(p, s, level, piece.head, piece.extra, x, y) + d;
    *reinterpret_cast<float4*>(to) = sum_of_pixel(shared, x, y, quad);
  }
}

// All threads of the block.
template <class Config>
__device__ __forceinline__ void store_pixels(Params const& p, ValueParams const& s,
                                             SumStorage<Config> const& shared, Piece const& piece,
                                             TileLevel const& level) {
  int const quad = static_cast<int>(threadIdx.x) % Config::kQuads;
  int const d = piece.slice * kMaxSlice + channel_of_quad<Config>(quad);
  if (d >= p.head_dim) return;
  if (piece.extra >= 0) return store_piece<Config>(p, s, shared, piece, level, quad, d);
  store_border<Config>(p, s, shared, piece, level, quad, d);
  store_inner<Config>(p, s, shared, piece, level, quad, d);
}

}  // namespace msda::sorted
