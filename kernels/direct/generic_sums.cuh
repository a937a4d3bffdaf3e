// The gradient of the values from the lists of generic_bins.cuh: a warp adds a tile's points one
// after the other to their pixels, in global memory. Tiles that touch share pixels; therefore they
// are added in four launches, each of tiles that lie two apart in both directions. So every pixel's
// sum has one order.
#pragma once

#include "kernels/direct/generic_bins.cuh"

namespace msda::direct {

// One point as the lane that located it hands it to all lanes.
template <typename Sum>
struct Scatter {
  std::int64_t token[4];  // -1: no such corner
  Sum weight[4];
  std::int64_t q;
};

template <ValueType kType, typename Real>
__device__ auto scatter_at(Params const& p, std::int64_t b, std::int64_t m, std::int64_t i) {
  using Sum = typename ValueTraits<kType>::Sum;
  HeadPoint const at(p, i);
  Scatter<Sum> scatter{{-1, -1, -1, -1}, {}, at.q};
  LevelParams const level = p.level(at.l);
  Row<Real> const row(p, b, at.q, m);
  Corners<Real> const corners = corners_of(level, point_at<Real>(p, row.at, level, at.l, at.k));
  auto const weight = static_cast<Sum>(row.weight(p, at.k));
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    if (corners.inside[c]) scatter.token[c] = corners.token(c);
    scatter.weight[c] = weight * static_cast<Sum>(corners.weight(c));
  }
  return scatter;
}

// Adds the points of kTogether lanes from `first` on, of which those below `count` have one; `sums`
// are those of the batch item and head. Their rows of grad_output are loaded before the first is
// added.
template <typename Sum>
__device__ void add_points(Params const& p, Scatter<Sum> const& mine, int first, int count,
                           std::int64_t b, std::int64_t m, Sum scale, Sum* sums) {
  std::int64_t const pixel = p.head_count * p.head_dim;
  for (std::int64_t base = 0; base < p.head_dim; base += kWarp) {
    std::int64_t const d = base + lane_index();
    bool const has_channel = d < p.head_dim;
    Sum g[kTogether];
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      std::int64_t const q = __shfl_sync(kAllLanes, mine.q, first + j);
      bool const is_there = has_channel && first + j < count;
      g[j] = is_there ? load_element<Sum>(p.output_dtype, p.grad_output,
                                          p.output_strides.at(b, q, m) + d)
                      : Sum{0};
    }
#pragma unroll
    for (int j = 0; j < kTogether; ++j) {
      if (first + j >= count) break;
      Sum* to[4];
      Sum weight[4];
      Sum sum[4];
      // All loads before the first store: the pixels differ, which the compiler does not know.
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        std::int64_t const token = __shfl_sync(kAllLanes, mine.token[c], first + j);
        weight[c] = __shfl_sync(kAllLanes, mine.weight[c], first + j) * scale;
        to[c] = token < 0 || !has_channel ? nullptr : sums + token * pixel + d;
        sum[c] = to[c] != nullptr ? *to[c] : Sum{0};
      }
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (to[c] != nullptr) *to[c] = sum[c] + weight[c] * g[j];
      }
    }
  }
}

// Which of the four launches a tile of a head is added in.
__device__ inline int turn_of_tile(Params const& p, BinParams const& s, std::int64_t tile) {
  std::int32_t l = p.level_count - 1;
  while (s.levels[l].first > tile || s.levels[l].across == 0) --l;
  LevelTiles const tiles = s.levels[l];
  std::int64_t const y = quotient(tile - tiles.first, tiles.across);
  std::int64_t const x = tile - tiles.first - y * tiles.across;
  return static_cast<int>((y & 1) << 1 | (x & 1));
}

template <ValueType kType, typename Real>
__global__ void __launch_bounds__(kThreads, sizeof(Real) == 4 ? 3 : 1)
    add_tiles(const __grid_constant__ Params p, const __grid_constant__ BinParams s, int turn) {
  ptx::wait_for_previous_grid();
  using Sum = typename ValueTraits<kType>::Sum;
  auto* const all_sums = static_cast<Sum*>(p.sums != nullptr ? p.sums : p.grad_value);
  std::int64_t const jobs = s.heads * s.tiles;
  for (std::int64_t job = warp_index(); job < jobs; job += warp_count()) {
    std::int64_t const head = quotient(job, s.tiles);
    std::int64_t const tile = job - head * s.tiles;
    if (turn_of_tile(p, s, tile) != turn) continue;
    std::int64_t const b = quotient(s.first_head + head, p.head_count);
    std::int64_t const m = s.first_head + head - b * p.head_count;
    Sum const scale = kIsScaled<kType> ? p.scale_of(m) : 1.0f;
    Sum* const sums = all_sums + (b * p.token_count * p.head_count + m) * p.head_dim;
    const std::int64_t* const list = s.list + head * s.points;
    const std::int64_t* const places = s.places + head * s.place_count + tile * s.chunks;
    std::int64_t const begin = tile == 0 ? 0 : places[-1];
    std::int64_t const end = places[s.chunks - 1];
    for (std::int64_t base = begin; base < end; base += kWarp) {
      Scatter<Sum> mine{{-1, -1, -1, -1}, {}, 0};
      if (base + lane_index() < end) {
        mine = scatter_at<kType, Real>(p, b, m, list[base + lane_index()]);
      }
      int const count = end - base < kWarp ? static_cast<int>(end - base) : kWarp;
      for (int i = 0; i < count; i += kTogether) add_points(p, mine, i, count, b, m, scale, sums);
    }
  }
}

// Sums to the type of grad_value.
template <typename Sum>
__global__ void __launch_bounds__(kThreads, 1) store_sums(const __grid_constant__ Params p) {
  ptx::wait_for_previous_grid();
  std::int64_t const elements = p.batch * p.token_count * p.head_count * p.head_dim;
  for (std::int64_t i = thread_index(); i < elements; i += thread_count()) {
    store_element(p.grad_value_dtype, p.grad_value, i, static_cast<const Sum*>(p.sums)[i]);
  }
}

}  // namespace msda::direct
