// Pixels that several blocks have summed a part of: those that tiles share, and all pixels of a
// tile that was summed in parts. A warp takes a tile and adds the sums, tiles in their order, parts
// in theirs: 4 bytes are read for each tile that has the pixel and channel, and the result is
// stored. It takes 32 instructions for 32 points on enc-local.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/sorted/tiles.cuh"

namespace msda::sorted {

__device__ __forceinline__ float4 load_four(const float* at) {
  return *reinterpret_cast<const float4*>(at);
}

// The sum that one tile has for its pixel (x, y).
__device__ __forceinline__ float4 sum_of_tile(Params const& p, ValueParams const& s,
                                              TileLevel const& level, std::int64_t head,
                                              std::int32_t tile, int x, int y, int d) {
  TileList const& list = s.lists[head * s.tiles + tile];
  if (list.parts == 0) {
    return load_four(border_of(p, s, level, head, tile) + border_index(level, x, y) * p.head_dim +
                     d);
  }
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  for (std::uint32_t i = 0; i < list.parts; ++i) {
    add(sum, load_four(part_pixel(p, s, level, head, list.first_part + i, x, y) + d));
  }
  return sum;
}

// A tile, and where its neighbours' sums lie.
struct JoinedTile {
  std::int64_t head;  // of the pass
  std::int32_t tile, x, y;
  const float* border;
  std::int64_t to_left;  // elements of the borders
  std::int64_t to_above;
  bool is_in_parts;
  bool near_parts;  // it, or a tile beside it or above, is in parts

  __device__ __forceinline__ JoinedTile(Params const& p, ValueParams const& s,
                                        TileLevel const& level, std::int64_t head_index,
                                        std::int32_t tile_index)
      : head(head_index), tile(tile_index) {
    std::int32_t const in_level = tile - level.first_tile;
    y = in_level / level.tiles_across;
    x = in_level - y * level.tiles_across;
    border = border_of(p, s, level, head, tile);
    to_left = level.border_pixels * p.head_dim;
    to_above = to_left * level.tiles_across;
    const TileList* const list = s.lists + head * s.tiles + tile;
    const TileList* const above = y > 0 ? list - level.tiles_across : list;
    int const left = x > 0 ? -1 : 0;
    std::uint32_t const own = list->parts;
    is_in_parts = own != 0;
    near_parts = (own | list[left].parts | above->parts | above[left].parts) != 0;
  }
};

// The sum over the tiles that have pixel (x, y) of this one.
__device__ __forceinline__ float4 sum_of_tiles(Params const& p, ValueParams const& s,
                                               TileLevel const& level, JoinedTile const& at, int x,
                                               int y, int d) {
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 1
  for (int other = 3; other >= 0; --other) {
    bool const is_left = (other & 1) != 0;
    bool const is_above = (other & 2) != 0;
    if (is_left && (x > 0 || at.x == 0)) continue;
    if (is_above && (y > 0 || at.y == 0)) continue;
    std::int32_t const tile = at.tile - (is_left ? 1 : 0) - (is_above ? level.tiles_across : 0);
    add(sum, sum_of_tile(p, s, level, at.head, tile, is_left ? level.tile_width : x,
                         is_above ? level.tile_height : y, d));
  }
  return sum;
}

// As sum_of_tiles(), for a pixel of the first row or column where no tile is in parts. All loads
// are under way before the first addition.
__device__ __forceinline__ float4 sum_of_borders(TileLevel const& level, JoinedTile const& at,
                                                 int x, int y, int head_dim, int d) {
  bool const from_left = x == 0 && at.x > 0;
  bool const from_above = y == 0 && at.y > 0;
  // The indices of border_index().
  int const across = level.tile_width + 1;
  int const index = y == 0 ? x : 2 * (across + y - 1);
  int const index_left = y == 0 ? level.tile_width : index + 1;
  const float* const border = at.border + d;
  float4 corner{}, above{}, left{};
  if (from_left) left = load_four(border - at.to_left + index_left * head_dim);
  if (from_above) above = load_four(border - at.to_above + (across + x) * head_dim);
  if (from_left && from_above) {
    corner = load_four(border - at.to_above - at.to_left + (across + level.tile_width) * head_dim);
  }
  float4 const own = load_four(border + index * head_dim);
  float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  add(sum, corner);
  add(sum, above);
  add(sum, left);
  add(sum, own);
  return sum;
}

template <bool kNearParts>
__device__ __forceinline__ void join_tile(Params const& p, ValueParams const& s,
                                          TileLevel const& level, JoinedTile const& at) {
  int const right = level.tile_width;
  int const bottom = level.tile_height;
  std::int32_t const map_x = at.x * right - 1;  // of pixel (0, 0)
  std::int32_t const map_y = at.y * bottom - 1;
  bool const all = kNearParts && at.is_in_parts;
  auto const quads = static_cast<int>(p.head_dim / 4);
  std::int64_t const first = value_element(p, s, level, at.head, map_x, map_y);
  std::int64_t const pixel_stride = p.head_count * p.head_dim;
  // A tile stores the pixels of its first row and column, or all: the others' are those of tiles
  // right of it or below.
  int const items = (all ? right * bottom : right + bottom - 1) * quads;
  for (int i = lane_of(); i < items; i += kWarp) {
    auto const pixel = static_cast<int>(__umulhi(static_cast<std::uint32_t>(i), s.by_quads));
    int const d = (i - pixel * quads) * 4;
    int y = pixel < right ? 0 : pixel - right + 1;
    int x = pixel < right ? pixel : 0;
    if (all) {
      y = static_cast<int>(__umulhi(static_cast<std::uint32_t>(pixel), level.by_width));
      x = pixel - y * right;
    }
    if (map_x + x < 0 || map_y + y < 0 || map_x + x >= level.width || map_y + y >= level.height) {
      continue;
    }
    float4 sum;
    if constexpr (kNearParts) {
      sum = sum_of_tiles(p, s, level, at, x, y, d);
    } else {
      sum = sum_of_borders(level, at, x, y, static_cast<int>(p.head_dim), d);
    }
    std::int64_t const to = first + (y * level.row_tokens + x) * pixel_stride + d;
    store_four(p.grad_value_dtype, p.grad_value, to, sum, s.aligned_result);
  }
}

static __global__ void __launch_bounds__(kJoinThreads, 4)
    join_edges(const __grid_constant__ Params p, const __grid_constant__ ValueParams s) {
  ptx::wait_for_previous_grid();
  auto const tiles = static_cast<std::uint32_t>(s.tiles);
  std::uint32_t const unit = blockIdx.x * (kJoinThreads / kWarp) + warp_of();
  if (unit >= tiles * static_cast<std::uint32_t>(s.heads)) return;
  std::uint32_t const head = unit / tiles;
  auto const tile = static_cast<std::int32_t>(unit - head * tiles);
  TileLevel const& level = level_of_tile(s, tile);
  JoinedTile const at(p, s, level, head, tile);
  if (at.near_parts) {
    join_tile<true>(p, s, level, at);
  } else {
    join_tile<false>(p, s, level, at);
  }
}

}  // namespace msda::sorted
