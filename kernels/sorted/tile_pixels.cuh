// Where the sums of a tile's pixels go: to grad_value, or where join_edges.cuh adds them up.
#pragma once

#include "kernels/sorted/warps.cuh"

namespace msda::sorted {

__device__ __forceinline__ TileLevel const& level_of_tile(ValueParams const& s, std::int32_t tile) {
  std::int32_t l = s.level_count - 1;
  while (s.levels[l].first_tile > tile || s.levels[l].tiles_across == 0) --l;
  return s.levels[l];
}

// The index of a pixel on the border of a tile among those of the tile.
__device__ __forceinline__ int border_index(TileLevel const& level, int x, int y) {
  int const across = level.tile_width + 1;
  if (y == 0) return x;
  if (y == level.tile_height) return across + x;
  return 2 * across + (y - 1) * 2 + (x != 0 ? 1 : 0);
}

// Where the border pixels of a tile begin.
__device__ __forceinline__ float* border_of(Params const& p, ValueParams const& s,
                                            TileLevel const& level, std::int64_t head,
                                            std::int32_t tile) {
  std::int64_t const of_tile = level.border_pixels;
  std::int64_t const pixel =
      head * s.border_pixels + level.first_border + (tile - level.first_tile) * of_tile;
  return s.borders + pixel * p.head_dim;
}

__device__ __forceinline__ float* piece_pixel(Params const& p, ValueParams const& s,
                                              TileLevel const& level, std::int64_t head,
                                              std::int64_t piece, int x, int y) {
  std::int64_t const pixel =
      (head * s.max_pieces + piece) * kMaxTilePixels + y * (level.tile_width + 1) + x;
  return s.piece_sums + pixel * p.head_dim;
}

// Element of grad_value where the channels of a pixel begin.
__device__ __forceinline__ std::int64_t value_element(Params const& p, ValueParams const& s,
                                                      TileLevel const& level, std::int64_t head,
                                                      std::int32_t x, std::int32_t y) {
  HeadIndex const index(p, s, head);
  std::int64_t const token = level.origin + y * level.row_tokens + x;
  return ((index.b * p.token_count + token) * p.head_count + index.m) * p.head_dim;
}

}  // namespace msda::sorted
