// The heads, tiles and pixels of a pass and where they lie; masks and sums of a warp's lanes.
#pragma once

#include "kernels/points/lanes.cuh"
#include "kernels/sorted/sorted.h"

namespace msda::sorted {

// The batch item and the head of it that a head of the pass is. B M fits 32 bits, and divisions of
// 64 bits take a hundred instructions.
struct HeadIndex {
  std::int64_t b, m;

  __device__ HeadIndex(Params const& p, ValueParams const& s, std::int64_t head) {
    auto const index = static_cast<std::uint32_t>(s.first_head + head);
    auto const heads = static_cast<std::uint32_t>(p.head_count);
    std::uint32_t const batch_item = quotient(index, heads, s.by_heads);
    b = batch_item;
    m = index - batch_item * heads;
  }
};

__device__ __forceinline__ std::uint32_t lanes_until() { return kAllLanes >> (31 - lane_of()); }

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

// The sums of a tile's border pixels.
__device__ __forceinline__ float* border_of(Params const& p, ValueParams const& s,
                                            TileLevel const& level, std::int64_t head,
                                            std::int32_t tile) {
  std::int64_t const of_tile = level.border_pixels;
  std::int64_t const pixel =
      head * s.border_pixels + level.first_border + (tile - level.first_tile) * of_tile;
  return s.borders + pixel * p.head_dim;
}

// The sums that a part of a tile has for its pixel (x, y).
__device__ __forceinline__ float* part_pixel(Params const& p, ValueParams const& s,
                                             TileLevel const& level, std::int64_t head,
                                             std::int64_t part, int x, int y) {
  std::int64_t const pixel =
      (head * s.max_parts + part) * kMaxTilePixels + y * (level.tile_width + 1) + x;
  return s.part_sums + pixel * p.head_dim;
}

// The element of grad_value where the channels of a pixel begin.
__device__ __forceinline__ std::int64_t value_element(Params const& p, ValueParams const& s,
                                                      TileLevel const& level, std::int64_t head,
                                                      std::int32_t x, std::int32_t y) {
  HeadIndex const index(p, s, head);
  std::int64_t const token = level.origin + y * level.row_tokens + x;
  return ((index.b * p.token_count + token) * p.head_count + index.m) * p.head_dim;
}

}  // namespace msda::sorted
