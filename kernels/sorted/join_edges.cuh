// Pixels that several blocks have summed a part of: those that tiles share, and all of a tile that
// was summed in pieces. A warp a tile adds the parts, tiles in their order, pieces in theirs.
#pragma once

#include "kernels/sorted/channels.cuh"
#include "kernels/sorted/tile_pixels.cuh"

namespace msda::sorted {

__device__ __forceinline__ float4 load_four(const float* at) {
  return *reinterpret_cast<const float4*>(at);
}

// What one tile has for its pixel (x, y).
__device__ __forceinline__ float4 part_of_tile(Params const& p, ValueParams const& s,
                                               TileLevel const& level, std::int64_t head,
                                               std::int32_t tile, int x, int y, int d) {
  const std::uint32_t* const pieces = s.pieces + head * (s.tiles + 1) + tile;
  if (pieces[0] == pieces[1]) return load_four(border_of(p, s, level, head, tile, x, y) + d);
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (std::uint32_t piece = pieces[0]; piece < pieces[1]; ++piece) {
    add(sum, load_four(piece_pixel(p, s, level, head, piece, x, y) + d));
  }
  return sum;
}

static __global__ void __launch_bounds__(kSmallThreads, 4)
    join_edges(const __grid_constant__ Params p, const __grid_constant__ ValueParams s) {
  ptx::wait_for_previous_grid();
  auto const tiles = static_cast<std::uint32_t>(s.tiles);
  std::uint32_t const unit = blockIdx.x * (kSmallThreads / kWarp) + warp_of();
  if (unit >= tiles * static_cast<std::uint32_t>(s.heads)) return;
  auto const tile = static_cast<std::int32_t>(unit % tiles);
  std::int64_t const head = unit / tiles;
  TileLevel const& level = level_of_tile(s, tile);
  const std::uint32_t* const pieces = s.pieces + head * (s.tiles + 1) + tile;
  bool const all = pieces[0] != pieces[1];
  std::int32_t const tile_x = (tile - level.first_tile) % level.tiles_across;
  std::int32_t const tile_y = (tile - level.first_tile) / level.tiles_across;
  auto const quads = static_cast<std::uint32_t>(p.head_dim / 4);
  auto const width = static_cast<std::uint32_t>(level.tile_width);
  auto const height = static_cast<std::uint32_t>(level.tile_height);
  // Of its pixels a tile has those that no tile right of it or below has: its first row and column,
  // or all.
  std::uint32_t const items = (all ? width * height : width + height - 1) * quads;
  for (std::uint32_t i = lane_of(); i < items; i += kWarp) {
    std::uint32_t const pixel = i / quads;
    auto const d = static_cast<int>((i - pixel * quads) * 4);
    std::uint32_t const row = all ? pixel / width : pixel < width ? 0 : pixel - width + 1;
    auto const y = static_cast<int>(row);
    auto const x = static_cast<int>(all ? pixel - row * width : pixel < width ? pixel : 0);
    std::int32_t const map_x = tile_x * level.tile_width + x - 1;
    std::int32_t const map_y = tile_y * level.tile_height + y - 1;
    if (map_x < 0 || map_y < 0 || map_x >= level.width || map_y >= level.height) continue;
    bool const from_left = x == 0 && tile_x > 0;
    bool const from_above = y == 0 && tile_y > 0;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    int const right = level.tile_width;
    int const bottom = level.tile_height;
    std::int32_t const above = tile - level.tiles_across;
    if (from_above && from_left) {
      add(sum, part_of_tile(p, s, level, head, above - 1, right, bottom, d));
    }
    if (from_above) add(sum, part_of_tile(p, s, level, head, above, x, bottom, d));
    if (from_left) add(sum, part_of_tile(p, s, level, head, tile - 1, right, y, d));
    add(sum, part_of_tile(p, s, level, head, tile, x, y, d));
    store_four(p.grad_value_dtype, p.grad_value, value_element(p, s, level, head, map_x, map_y) + d,
               sum, s.aligned_result);
  }
}

}  // namespace msda::sorted
