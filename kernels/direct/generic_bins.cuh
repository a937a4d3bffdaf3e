// The points of a head in the order of their tiles, and within a tile as they come: a stable
// counting sort of any number of points and tiles, so that sums over a tile's points have the same
// order on every run.
//
// A cell is where points with the same four corners lie: cell (x, y) has the pixels x - 1 and x,
// y - 1 and y. A tile is a rectangle of cells, of powers of two. A warp counts a chunk's points by
// tile, in counters that are its own; running sums make places of counts; the same warp goes
// through its chunk once more and places each point.
#pragma once

#include "kernels/common/shared.cuh"
#include "kernels/direct/generic.cuh"

namespace msda::direct {

inline constexpr unsigned kAllLanes = 0xffffffffu;

// Divisions of 64 bits take a hundred instructions.
__device__ inline std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<std::uint32_t>(a) / static_cast<std::uint32_t>(b);
  return a / b;
}

// Point i of a head: of which query, and which of its points.
struct HeadPoint {
  std::int64_t q, k;
  std::int32_t l;

  __device__ HeadPoint(Params const& p, std::int64_t i) : q(quotient(i, p.point_total)), l(0) {
    k = i - q * p.point_total;
    while (k >= p.level(l).point_start + p.level(l).point_count) ++l;
  }
};

// Of a head, or -1: no corner is on the map.
template <typename Real>
__device__ std::int64_t tile_of(Params const& p, BinParams const& s, std::int64_t b, std::int64_t m,
                                std::int64_t i) {
  HeadPoint const at(p, i);
  LevelParams const level = p.level(at.l);
  Point<Real> const point = point_at<Real>(p, PointRow(p, b, at.q, m), level, at.l, at.k);
  if (!point.is_number || level.width == 0 || level.height == 0) return -1;
  // Written so that NaN is outside. Beyond these bounds the floor may not fit an integer.
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
  for (std::int64_t base = chunk.first; base < chunk.last; base += kWarp) {
    std::int64_t const i = base + lane_index();
    long long const tile = i < chunk.last ? tile_of<Real>(p, s, chunk.b, chunk.m, i) : -1;
    unsigned const same = __match_any_sync(kAllLanes, tile);
    unsigned const before = same & ((1u << static_cast<unsigned>(lane_index())) - 1u);
    fn(i, tile < 0 ? nullptr : chunk.places + tile * s.chunks, __popc(before), __popc(same));
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

// Sum over the threads of the block before this one; `sums` of kWarpsPerBlock + 1 numbers becomes
// that of all in its last.
__device__ inline std::int64_t sum_before(std::int64_t x, std::int64_t* sums) {
  std::int64_t running = x;
  for (int distance = 1; distance < kWarp; distance *= 2) {
    std::int64_t const other = __shfl_up_sync(kAllLanes, running, static_cast<unsigned>(distance));
    if (lane_index() >= distance) running += other;
  }
  auto const warp = static_cast<int>(threadIdx.x / kWarp);
  if (lane_index() == kWarp - 1) sums[warp] = running;
  __syncthreads();
  if (threadIdx.x == 0) {
    std::int64_t before = 0;
    for (int w = 0; w <= kWarpsPerBlock; ++w) {
      std::int64_t const of_warp = w < kWarpsPerBlock ? sums[w] : 0;
      sums[w] = before;
      before += of_warp;
    }
  }
  __syncthreads();
  return sums[warp] + running - x;
}

// A block a head: counts, in the order (tile, chunk), to places in the head's list.
static __global__ void __launch_bounds__(kThreads, 1)
    sum_counts(const __grid_constant__ BinParams s) {
  ptx::wait_for_previous_grid();
  MSDA_SHARED(std::int64_t, sums, [kWarpsPerBlock + 1]);
  for (std::int64_t head = blockIdx.x; head < s.heads; head += gridDim.x) {
    std::int64_t* const places = s.places + head * s.place_count;
    std::int64_t before = 0;
    for (std::int64_t base = 0; base < s.place_count; base += kThreads * kCountsOfThread) {
      std::int64_t const i = base + static_cast<std::int64_t>(threadIdx.x) * kCountsOfThread;
      std::int64_t counts[kCountsOfThread];
      std::int64_t sum = 0;
#pragma unroll
      for (int j = 0; j < kCountsOfThread; ++j) {
        counts[j] = i + j < s.place_count ? places[i + j] : 0;
        sum += counts[j];
      }
      std::int64_t place = before + sum_before(sum, sums);
#pragma unroll
      for (int j = 0; j < kCountsOfThread; ++j) {
        if (i + j < s.place_count) places[i + j] = place;
        place += counts[j];
      }
      before += sums[kWarpsPerBlock];
      __syncthreads();
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
