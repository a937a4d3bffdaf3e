// The points of a head in the order of their tiles, and within a tile as they come: a stable
// counting sort of any number of points and tiles, so that sums over a tile's points have the same
// order on every run.
//
// A cell is where points with the same four corners lie: cell (x, y) has the pixels x - 1 and x,
// y - 1 and y. A tile is a rectangle of cells, of powers of two. A warp counts a chunk's points by
// tile, in counters that are its own; running sums make places of counts; the same warp goes
// through its chunk once more and places each point.
#pragma once

#include "kernels/direct/generic_warps.cuh"

namespace msda::direct {

// Point i of a head: of which query, and which of its points.
struct HeadPoint {
  std::int64_t q = 0, k = 0;
  std::int32_t l = 0;

  HeadPoint() = default;
  __device__ HeadPoint(Params const& p, std::int64_t i) : q(quotient(i, p.point_total)) {
    k = i - q * p.point_total;
    l = level_of_point(p, k);
  }
};

// A point on its way until it is located: sampled input's coordinates as they lie in memory.
template <typename Real>
struct PointAhead {
  HeadPoint at;
  Real x = 0, y = 0;
  bool is_there = false;

  PointAhead() = default;
  __device__ PointAhead(Params const& p, std::int64_t b, std::int64_t m, std::int64_t i)
      : at(p, i), is_there(true) {
    if (p.reference_dim != 0) return;
    std::int64_t const coord = p.coord_strides.at(b, at.q, m) + 2 * at.k;
    x = load_element<Real>(p.coord_dtype, p.coord, coord);
    y = load_element<Real>(p.coord_dtype, p.coord, coord + 1);
  }
};

// Of a head, or -1: no corner is on the map.
template <typename Real>
__device__ std::int64_t tile_of(Params const& p, BinParams const& s, std::int64_t b, std::int64_t m,
                                PointAhead<Real> const& ahead) {
  if (!ahead.is_there) return -1;
  HeadPoint const& at = ahead.at;
  LevelParams const level = p.level(at.l);
  if (level.width == 0 || level.height == 0) return -1;
  Point<Real> const point =
      p.reference_dim == 0 ? Point<Real>{to_pixel(ahead.x, static_cast<Real>(level.width)),
                                         to_pixel(ahead.y, static_cast<Real>(level.height)), true}
                           : point_at<Real>(p, PointRow(p, b, at.q, m), level, at.l, at.k);
  if (!point.is_number) return -1;
  // Written so that NaN and infinite numbers are outside. Beyond these bounds the floor may not fit
  // an integer.
  if (!(point.x >= -1 && point.x < static_cast<Real>(level.width))) return -1;
  if (!(point.y >= -1 && point.y < static_cast<Real>(level.height))) return -1;
  auto const cell_x = static_cast<std::int32_t>(floor(point.x)) + 1;
  auto const cell_y = static_cast<std::int32_t>(floor(point.y)) + 1;
  LevelTiles const tiles = s.levels[at.l];
  return tiles.first + (cell_y >> tiles.height_bits) * tiles.across + (cell_x >> tiles.width_bits);
}

// A chunk of a head's points.
struct Chunk {
  std::int64_t b, m;
  std::int64_t first, last;  // points
  std::int64_t* places;      // of the chunk and tile 0; those of the next tile are `chunks` further
  std::int64_t* list;        // of the head

  __device__ Chunk(Params const& p, BinParams const& s, std::int64_t job) {
    std::int64_t const head = quotient(job, s.chunks);
    std::int64_t const chunk = job - head * s.chunks;
    b = quotient(s.first_head + head, p.head_count);
    m = s.first_head + head - b * p.head_count;
    first = chunk * s.chunk_points;
    last = first + s.chunk_points < s.points ? first + s.chunk_points : s.points;
    places = s.places + head * s.place_count + chunk;
    list = s.list + head * s.points;
  }
};

// Calls fn(point, place, points of the warp before that go there too, their number, whether it is
// the first of them), for points that lie near a map, 32 at a time in their order.
template <typename Real, class Fn>
__device__ void for_each_near_point(Params const& p, BinParams const& s, Chunk const& chunk,
                                    Fn fn) {
  for (std::int64_t base = chunk.first; base < chunk.last; base += kPointsAhead * kWarp) {
    PointAhead<Real> points[kPointsAhead];
#pragma unroll
    for (int j = 0; j < kPointsAhead; ++j) {
      std::int64_t const i = base + j * kWarp + lane_index();
      if (i < chunk.last) points[j] = PointAhead<Real>(p, chunk.b, chunk.m, i);
    }
#pragma unroll
    for (int j = 0; j < kPointsAhead; ++j) {
      long long const tile = tile_of<Real>(p, s, chunk.b, chunk.m, points[j]);
      unsigned const same = __match_any_sync(kAllLanes, tile);
      unsigned const before = same & ((1u << static_cast<unsigned>(lane_index())) - 1u);
      fn(base + j * kWarp + lane_index(), tile < 0 ? nullptr : chunk.places + tile * s.chunks,
         __popc(before), __popc(same));
    }
  }
}

template <typename Real>
static __global__ void __launch_bounds__(kThreads, 1)
    count_tiles(const __grid_constant__ Params p, const __grid_constant__ BinParams s) {
  ptx::wait_for_previous_grid();
  std::int64_t const jobs = s.heads * s.chunks;
  for (std::int64_t job = warp_index(); job < jobs; job += warp_count()) {
    for_each_near_point<Real>(p, s, Chunk(p, s, job),
                              [](std::int64_t, std::int64_t* place, int before, int same) {
                                if (place != nullptr && before == 0) *place += same;
                                __syncwarp();
                              });
  }
}

// A block a head: counts, in the order (tile, chunk), to places in the head's list. A warp has
// kCountsOfLane times 32 counts that follow each other, a lane each 32nd of them.
static __global__ void __launch_bounds__(kThreads, 1)
    sum_counts(const __grid_constant__ BinParams s) {
  ptx::wait_for_previous_grid();
  MSDA_SHARED(std::int64_t, sums, [kWarpsPerBlock]);
  for (std::int64_t head = blockIdx.x; head < s.heads; head += gridDim.x) {
    std::int64_t* const places = s.places + head * s.place_count;
    std::int64_t before = 0;  // the sum of all steps before
    for (std::int64_t base = 0; base < s.place_count; base += kThreads * kCountsOfLane) {
      std::int64_t const first = base + warp_of_block() * kWarp * kCountsOfLane + lane_index();
      std::int64_t counts[kCountsOfLane];
#pragma unroll
      for (int j = 0; j < kCountsOfLane; ++j) {
        std::int64_t const i = first + j * kWarp;
        counts[j] = i < s.place_count ? places[i] : 0;
      }
      std::int64_t of_warp = 0;
#pragma unroll
      for (int j = 0; j < kCountsOfLane; ++j) {
        std::int64_t const to_lane = sum_to_lane(counts[j]);
        counts[j] = of_warp + to_lane - counts[j];
        of_warp += __shfl_sync(kAllLanes, to_lane, kWarp - 1);
      }
      if (lane_index() == 0) sums[warp_of_block()] = of_warp;
      __syncthreads();
      std::int64_t place = before;
#pragma unroll
      for (int w = 0; w < kWarpsPerBlock; ++w) {
        if (w < warp_of_block()) place += sums[w];
        before += sums[w];
      }
      __syncthreads();
#pragma unroll
      for (int j = 0; j < kCountsOfLane; ++j) {
        std::int64_t const i = first + j * kWarp;
        if (i < s.place_count) places[i] = place + counts[j];
      }
    }
  }
}

// Leaves in each place where the next one's points begin.
template <typename Real>
static __global__ void __launch_bounds__(kThreads, 1)
    list_points(const __grid_constant__ Params p, const __grid_constant__ BinParams s) {
  ptx::wait_for_previous_grid();
  std::int64_t const jobs = s.heads * s.chunks;
  for (std::int64_t job = warp_index(); job < jobs; job += warp_count()) {
    Chunk const chunk(p, s, job);
    auto const list = [&](std::int64_t i, std::int64_t* place, int before, int same) {
      std::int64_t const first = place != nullptr ? *place : 0;
      __syncwarp();
      if (place != nullptr) {
        chunk.list[first + before] = i;
        if (before == 0) *place = first + same;
      }
      __syncwarp();
    };
    for_each_near_point<Real>(p, s, chunk, list);
  }
}

}  // namespace msda::direct
