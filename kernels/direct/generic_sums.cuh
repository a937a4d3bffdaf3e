// The gradient of the values from the lists of generic_bins.cuh: a warp adds a tile's points one
// after the other to their pixels, in global memory. Tiles that touch share pixels; therefore they
// are added in four launches, each of tiles that lie two apart in both directions; where levels
// share tokens, in four for each level. So every pixel's sum has one order.
//
// Of 32 points those of a cell follow each other: its four pixels stay in registers for as long.
#pragma once

#include "kernels/direct/generic_bins.cuh"

#include <climits>

namespace msda::direct {

// One point as the lane that located it leaves it in shared memory for all lanes.
template <typename Sum>
struct alignas(16) Scatter {
  std::int64_t at[4];   // elements of the sums at which its corners' rows begin; -1: no such corner
  std::int64_t output;  // that of grad_output at which its query's row begins
  Sum weight[4];
  bool opens_cell;  // else the corners are those of the point before
};

// Of point i of a head; also a number that points of the same cell have, and no others.
template <ValueType kType, typename Real, typename Sum>
__device__ long long scatter_point(Params const& p, std::int64_t b, std::int64_t m, std::int64_t i,
                                   Sum scale, Scatter<Sum>& scatter) {
  HeadPoint const at(p, i);
  LevelParams const level = p.level(at.l);
  Row<Real> const row(p, b, at.q, m);
  Corners<Real> const corners = corners_of(level, point_at<Real>(p, row.at, level, at.l, at.k));
  Sum const weight = static_cast<Sum>(row.weight(p, at.k)) * scale;
  std::int64_t const first = b * p.token_count * p.head_count + m;
  // Where maps have no border, the first corners of two cells in columns -1 and W - 1 may be one
  // token; but the pixels that are there differ.
  long long cell = corners.first;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    cell = 2 * cell + (corners.inside[c] ? 1 : 0);
    scatter.at[c] = corners.inside[c] ? (first + corners.token(c) * p.head_count) * p.head_dim : -1;
    scatter.weight[c] = weight * static_cast<Sum>(corners.weight(c));
  }
  scatter.output = p.output_strides.at(b, at.q, m);
  return cell;
}

// Where a lane's point comes if those of a cell follow each other, cells in the order of their
// first lanes.
struct Turn {
  int place;
  bool is_first;  // of its cell

  __device__ explicit Turn(long long cell) {
    unsigned const same = __match_any_sync(kAllLanes, cell);
    int const before = __popc(same & ((1u << static_cast<unsigned>(lane_index())) - 1u));
    is_first = before == 0;
    int const opened = is_first ? __popc(same) : 0;
    int const first_place = sum_to_lane(opened) - opened;
    place = __shfl_sync(kAllLanes, first_place, __ffs(static_cast<int>(same)) - 1) + before;
  }
};

// Adds `count` points in their order; Element is the type of grad_output. All lanes have left a
// point in `points`, behind the last one a row to load.
template <typename Element, typename Sum>
__device__ void add_points(Params const& p, const Scatter<Sum>* points, int count, Sum* sums) {
  for (std::int64_t d = lane_index(); d < p.head_dim; d += kWarp) {
    auto const* const channel = static_cast<const Element*>(p.grad_output) + d;
    Sum* to[4] = {};
    Sum sum[4] = {};
    auto const store = [&] {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (to[c] != nullptr) *to[c] = sum[c];
      }
    };
    for (int first = 0; first < count; first += kTogether) {
      // Not converted yet: that would wait for each.
      Element g[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) g[j] = channel[points[first + j].output];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        if (first + j >= count) break;
        Scatter<Sum> const& point = points[first + j];
        if (point.opens_cell) {
          store();
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            to[c] = point.at[c] < 0 ? nullptr : sums + point.at[c] + d;
            sum[c] = to[c] != nullptr ? *to[c] : Sum{0};
          }
        }
#pragma unroll
        for (int c = 0; c < 4; ++c) sum[c] += point.weight[c] * convert<Sum>(g[j]);
      }
    }
    store();
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
  using Sum = typename ValueTraits<kType>::Sum;
  MSDA_SHARED(Scatter<Sum>, points_of_warps, [kWarpsPerBlock][kWarp]);
  ptx::wait_for_previous_grid();
  Scatter<Sum>* const points = points_of_warps[warp_of_block()];
  auto* const sums = static_cast<Sum*>(p.sums != nullptr ? p.sums : p.grad_value);
  std::int64_t const jobs = s.heads * s.added_tiles;
  for (std::int64_t job = warp_index(); job < jobs; job += warp_count()) {
    std::int64_t const head = quotient(job, s.added_tiles);
    std::int64_t const tile = s.added_first + job - head * s.added_tiles;
    if (turn_of_tile(p, s, tile) != turn) continue;
    std::int64_t const b = quotient(s.first_head + head, p.head_count);
    std::int64_t const m = s.first_head + head - b * p.head_count;
    Sum const scale = kIsScaled<kType> ? p.scale_of(m) : 1.0f;
    const std::int64_t* const list = s.list + head * s.points;
    const std::int64_t* const places = s.places + head * s.place_count + tile * s.chunks;
    std::int64_t const begin = tile == 0 ? 0 : places[-1];
    std::int64_t const end = places[s.chunks - 1];
    for (std::int64_t base = begin; base < end; base += kWarp) {
      Scatter<Sum> mine{{-1, -1, -1, -1}, 0, {}, false};
      long long cell = LLONG_MIN;  // of lanes behind the last point: they come last
      if (base + lane_index() < end) {
        cell = scatter_point<kType, Real>(p, b, m, list[base + lane_index()], scale, mine);
      }
      Turn const its_turn(cell);
      mine.opens_cell = its_turn.is_first;
      __syncwarp();  // the points before have been added
      points[its_turn.place] = mine;
      __syncwarp();
      int const count = end - base < kWarp ? static_cast<int>(end - base) : kWarp;
      with_element(p.output_dtype,
                   [&](auto element) { add_points<decltype(element)>(p, points, count, sums); });
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
