// The backward of any legal problem, with the same bits on every run: gradients of the points, then
// of the values.
#pragma once

#include "kernels/direct/generic.cuh"

#include <climits>

namespace msda::direct {

// ---- gradients of the points of any legal problem, with the same bits on every run: every sum has
// one warp and one order.
//
// Each lane locates a point of a row and leaves in shared memory where its corners' rows begin. Of
// several points at a time the warp, with lanes over channels, multiplies these rows with the row
// of grad_output; the products are summed so that each lane ends with those of its own point.

// The gradients by one point's pixel position and weight, the attention weight not yet applied to
// x and y.
template <typename Sum>
struct PointGrad {
  Sum x, y, weight;
  bool has_slope;  // else x and y are zero, whatever the attention weight
};

// Bytes from the start of the values to the rows of a point's corners. Those of a corner that is
// not there are token 0's, so that loads need no condition; nothing comes of them.
struct alignas(16) CornerRows {
  std::int64_t bytes[4];
};

// The sums over the channels of corners times grad_output, of the point that the lane located. All
// lanes of the warp call it and have left their corners in `points`; the first `count` have a
// point.
template <ValueType kType, typename Sum>
__device__ void sum_products(Params const& p, const CornerRows* points, int count,
                             std::int64_t output, Sum (&mine)[4]) {
  using Element = typename ValueTraits<kType>::Element;
  auto const lane = static_cast<int>(lane_index());
  for (int first = 0; first < count; first += kPointsSummed) {
    Sum sums[4 * kPointsSummed] = {};
    for (std::int64_t d = lane; d < p.head_dim; d += kWarp) {
      auto const* const channel =
          reinterpret_cast<const char*>(static_cast<const Element*>(p.value) + d);
      // Not converted yet: that would wait for each.
      Element v[4 * kPointsSummed];
#pragma unroll
      for (int i = 0; i < 4 * kPointsSummed; ++i) {
        v[i] = *reinterpret_cast<const Element*>(channel + points[first + i / 4].bytes[i % 4]);
      }
      auto const g = load_element<Sum>(p.output_dtype, p.grad_output, output + d);
#pragma unroll
      for (int i = 0; i < 4 * kPointsSummed; ++i) sums[i] += g * convert<Sum>(v[i]);
    }
    Sum const sum = sum_of_each(sums);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      int const source = (lane % kPointsSummed * 4 + c) * (kWarp / (4 * kPointsSummed));
      Sum const product = __shfl_sync(kAllLanes, sum, source);
      if (lane / kPointsSummed == first / kPointsSummed) mine[c] = product;
    }
  }
}

// The gradients of the lane's point, zero where it has none; `points` are the warp's.
template <ValueType kType, bool kNearest, typename Real>
__device__ auto point_grad(Params const& p, Row<Real> const& row, RowPoint const& at,
                           CornerRows* points) {
  using Sum = typename ValueTraits<kType>::Sum;
  Corners<Real> corners{};
  if (at.is_there) {
    auto const point = place_of<Real, kNearest>(p, row.at, at.level, at.l, at.k);
    if (point.is_number) corners = corners_of<Real>(at.level, point);
  }
  std::int64_t const head = row.b * p.value_strides.batch + row.m * p.value_strides.head;
  CornerRows rows;
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    std::int64_t const token = corners.inside[c] ? corners.token(c) : 0;
    rows.bytes[c] = (head + token * p.value_strides.row) *
                    static_cast<std::int64_t>(sizeof(typename ValueTraits<kType>::Element));
  }
  __syncwarp();  // the points before have been read
  points[lane_index()] = rows;
  __syncwarp();
  // Without tokens there is nothing to load.
  std::int64_t const count = p.token_count > 0 ? p.point_total - (at.k - lane_index()) : 0;
  Sum products[4] = {};
  sum_products<kType>(p, points, count < kWarp ? static_cast<int>(count) : kWarp,
                      p.output_strides.at(row.b, row.q, row.m), products);
  Sum const one = 1;
  Sum const scale = kIsScaled<kType> ? p.scale_of(row.m) : one;
  PointGrad<Sum> grad{0, 0, 0, false};
  if (!corners.any_inside) return grad;
  if constexpr (kNearest) {
    grad.weight = products[0] * scale;
    return grad;
  } else {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      // Not zero times a gradient that may be infinite.
      if (!corners.inside[c]) products[c] = 0;
      grad.weight += static_cast<Sum>(corners.weight(c)) * products[c];
    }
    auto const fx = static_cast<Sum>(corners.fx);
    auto const fy = static_cast<Sum>(corners.fy);
    grad.x = (one - fy) * (products[1] - products[0]) + fy * (products[3] - products[2]);
    grad.y = (one - fx) * (products[2] - products[0]) + fx * (products[3] - products[1]);
    return PointGrad<Sum>{grad.x * scale, grad.y * scale, grad.weight * scale, true};
  }
}

// The gradient by the normalised coordinate that a pixel position comes from.
template <typename Sum>
__device__ void to_coord_grad(LevelParams const& level, Sum weight, PointGrad<Sum>& grad) {
  if (!grad.has_slope) return;
  grad.x *= weight * static_cast<Sum>(level.width);
  grad.y *= weight * static_cast<Sum>(level.height);
}

template <typename Sum>
__device__ void store_if_asked(msda_dtype dtype, void* array, std::int64_t index, Sum x) {
  if (array != nullptr) store_element(dtype, array, index, x);
}

// One head of one query, sampled input: the gradients of its points are independent.
template <ValueType kType, bool kNearest, typename Real>
__device__ void sampled_point_grads(Params const& p, Row<Real> const& row, CornerRows* points) {
  using Sum = typename ValueTraits<kType>::Sum;
  std::int64_t const to_coord = p.grad_coord_strides.at(row.b, row.q, row.m);
  std::int64_t const to_weight = p.grad_weight_strides.at(row.b, row.q, row.m);
  for (std::int64_t first = 0; first < p.point_total; first += kWarp) {
    RowPoint const at(p, first + lane_index());
    PointGrad<Sum> grad = point_grad<kType, kNearest>(p, row, at, points);
    if (!at.is_there) continue;
    store_if_asked(p.weight_dtype, p.grad_weight, to_weight + at.k, grad.weight);
    to_coord_grad(at.level, static_cast<Sum>(row.weight(p, at.k)), grad);
    store_if_asked(p.coord_dtype, p.grad_coord, to_coord + 2 * at.k, grad.x);
    store_if_asked(p.coord_dtype, p.grad_coord, to_coord + 2 * at.k + 1, grad.y);
  }
}

// The softmax's own derivative: w_k (g_k - sum_j w_j g_j). The sum first, then each.
template <ValueType kType, bool kNearest, typename Real>
__device__ void logit_grads(Params const& p, Row<Real> const& row, CornerRows* points) {
  using Sum = typename ValueTraits<kType>::Sum;
  std::int64_t const to = p.grad_weight_strides.at(row.b, row.q, row.m);
  Sum mean = 0;
  PointGrad<Sum> grad{};
  for (int pass = 0; pass < 2; ++pass) {
    for (std::int64_t first = 0; first < p.point_total; first += kWarp) {
      RowPoint const at(p, first + lane_index());
      // One warpful is still there.
      if (pass == 0 || p.point_total > kWarp)
        grad = point_grad<kType, kNearest>(p, row, at, points);
      if (!at.is_there) continue;
      auto const weight = static_cast<Sum>(row.weight(p, at.k));
      if (pass == 0) {
        mean += weight * grad.weight;
      } else {
        store_if_asked(p.weight_dtype, p.grad_weight, to + at.k, weight * (grad.weight - mean));
      }
    }
    if (pass == 0) mean = warp_sum(mean);
  }
}

// The part of one point in the gradients of its reference, and the gradient by its offset.
template <typename Sum>
struct FusedGrad {
  Sum reference[4];
  Sum offset[2];
};
template <typename Sum, typename Real>
__device__ FusedGrad<Sum> fused_grad(Params const& p, Row<Real> const& row, RowPoint const& at,
                                     PointGrad<Sum> const& grad) {
  Sum const by_coord[2] = {grad.x, grad.y};
  Sum const size[2] = {static_cast<Sum>(at.level.width), static_cast<Sum>(at.level.height)};
  FusedGrad<Sum> result{};
  std::int64_t const reference =
      row.at.reference + static_cast<std::int64_t>(at.l) * p.reference_dim;
  Sum const scale = static_cast<Sum>(0.5) / static_cast<Sum>(at.level.point_count);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    // A zero gradient stays zero where the map is empty or a box is no number.
    if (by_coord[i] == 0) continue;
    result.reference[i] = by_coord[i];
    if (p.reference_dim == 2) {
      result.offset[i] = by_coord[i] / size[i];
    } else {
      auto const extent = load_element<Sum>(p.reference_dtype, p.reference, reference + 2 + i);
      auto const offset = load_element<Sum>(p.coord_dtype, p.coord, row.at.coord + 2 * at.k + i);
      result.reference[2 + i] = by_coord[i] * offset * scale;
      result.offset[i] = by_coord[i] * (extent * scale);
    }
  }
  return result;
}

// The gradients of a query's references, level by level, from points in their order.
template <typename Sum>
struct ReferenceSums {
  std::int32_t l = 0;  // the first level of which points may follow
  Sum sum = 0;         // of its component i in lane i

  // Adds what the lanes have by their points, the last of which come before `end`.
  __device__ void add(Params const& p, RowPoint const& at, std::int64_t end, std::int64_t query,
                      Sum const (&by_reference)[4]) {
    for (; l < p.level_count; ++l) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        Sum const more = warp_sum(at.is_there && at.l == l ? by_reference[i] : Sum{0});
        if (lane_index() == i) sum += more;
      }
      if (p.level(l).point_start + p.level(l).point_count > end) return;
      if (lane_index() < p.reference_dim) {
        std::int64_t const to = (query * p.level_count + l) * p.reference_dim + lane_index();
        store_element(p.reference_dtype, p.grad_reference, to, sum);
      }
      sum = 0;
    }
  }
};

// Neighbouring heads of one query, fused input; if the gradient of its reference points is wanted,
// all heads, since they add to it.
template <ValueType kType, typename Real, bool kNearest>
__device__ void fused_point_grads(Params const& p, std::int64_t b, std::int64_t q,
                                  std::int64_t first_head, std::int64_t heads, CornerRows* points) {
  using Sum = typename ValueTraits<kType>::Sum;
  std::int64_t const query = b * p.query_count + q;
  ReferenceSums<Sum> sums;
  // Once where there is no point, too: then the gradient of a reference is zero.
  for (std::int64_t first = 0; first == 0 || first < p.point_total; first += kWarp) {
    RowPoint const at(p, first + lane_index());
    Sum by_reference[4] = {};
    for (std::int64_t m = first_head; m < first_head + heads; ++m) {
      PointRow const of_points(p, b, q, m);
      Row<Real> const row(
          b, q, m, of_points,
          softmax_of_lanes<Real, kWarp>(p, of_points.weight, lane_index(), p.point_total));
      PointGrad<Sum> grad = point_grad<kType, kNearest>(p, row, at, points);
      if (!at.is_there) continue;
      to_coord_grad(at.level, static_cast<Sum>(row.weight(p, at.k)), grad);
      FusedGrad<Sum> const by = fused_grad<Sum>(p, row, at, grad);
#pragma unroll
      for (int i = 0; i < 4; ++i) by_reference[i] += by.reference[i];
      std::int64_t const to = p.grad_coord_strides.at(b, q, m) + 2 * at.k;
      store_if_asked(p.coord_dtype, p.grad_coord, to, by.offset[0]);
      store_if_asked(p.coord_dtype, p.grad_coord, to + 1, by.offset[1]);
    }
    if (p.grad_reference != nullptr) sums.add(p, at, first + kWarp, query, by_reference);
  }
}

// A warp a head of a query, or a query where heads have a sum.
template <ValueType kType, typename Real, bool kFused, bool kNearest>
__global__ void __launch_bounds__(kThreads, sizeof(Real) == 4 && !kFused ? 2 : 1)
    backward_points(const __grid_constant__ Params p) {
  MSDA_SHARED(CornerRows, points_of_warps, [kWarpsPerBlock][kWarp]);
  ptx::wait_for_previous_grid();
  CornerRows* const points = points_of_warps[warp_of()];
  std::int64_t const heads = kFused && p.grad_reference != nullptr ? p.head_count : 1;
  std::int64_t const rows = p.batch * p.query_count * p.head_count;
  for (std::int64_t first = warp_index() * heads; first < rows; first += warp_count() * heads) {
    std::int64_t const query = quotient(first, p.head_count);
    std::int64_t const first_head = first - query * p.head_count;
    std::int64_t const b = quotient(query, p.query_count);
    std::int64_t const q = query - b * p.query_count;
    if constexpr (!kFused) {
      Row<Real> const row(b, q, first_head, PointRow(p, b, q, first_head), {});
      sampled_point_grads<kType, kNearest>(p, row, points);
    } else {
      if (p.grad_coord != nullptr || p.grad_reference != nullptr) {
        fused_point_grads<kType, Real, kNearest>(p, b, q, first_head, heads, points);
      }
      if (p.grad_weight == nullptr) continue;
      for (std::int64_t m = first_head; m < first_head + heads; ++m) {
        PointRow const of_points(p, b, q, m);
        Row<Real> const row(
            b, q, m, of_points,
            softmax_of_lanes<Real, kWarp>(p, of_points.weight, lane_index(), p.point_total));
        logit_grads<kType, kNearest>(p, row, points);
      }
    }
  }
}

// ---- the gradient of the values of any legal problem, from its points in the order of their
// tiles: a warp adds a tile's points one after the other to their pixels, in global memory. Tiles
// that touch share pixels; therefore they are added in four launches, each of tiles that lie two
// apart in both directions; where levels share tokens, in four for each level. So every pixel's sum
// has one order.
//
// Points of a cell follow each other among 32: its four pixels stay in registers for as long.
//
// The points of a head in the order of their tiles, and within a tile as they come: a stable
// counting sort of any number of points and tiles, so that sums over a tile's points have the same
// order on every run.
//
// A cell is where points with the same four corners lie: cell (x, y) has the pixels x - 1 and x,
// y - 1 and y. A tile is a rectangle of cells, of powers of two. A warp counts a chunk's points by
// tile, in counters that are its own; running sums make places of counts; the same warp goes
// through its chunk once more and places each point.

// ---- points in the order of their tiles

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

__device__ __forceinline__ std::int64_t tile_of_cell(BinParams const& s, std::int32_t l,
                                                     std::int32_t x, std::int32_t y) {
  LevelTiles const tiles = s.levels[l];
  return tiles.first + (y >> tiles.height_bits) * tiles.across + (x >> tiles.width_bits);
}

// The tile of a head that a point lies in, or -1: no corner is on the map.
template <bool kNearest, typename Real>
__device__ std::int64_t tile_of(Params const& p, BinParams const& s, std::int64_t b, std::int64_t m,
                                PointAhead<Real> const& ahead) {
  if (!ahead.is_there) return -1;
  HeadPoint const& at = ahead.at;
  LevelParams const level = p.level(at.l);
  if (level.width == 0 || level.height == 0) return -1;
  if constexpr (kNearest) {
    Pixel const pixel = nearest_at<Real>(p, PointRow(p, b, at.q, m), level, at.l, at.k);
    return pixel.is_number ? tile_of_cell(s, at.l, pixel.x + 1, pixel.y + 1) : -1;
  } else {
    Point<Real> const point =
        p.reference_dim == 0 ? Point<Real>{to_pixel(ahead.x, static_cast<Real>(level.width)),
                                           to_pixel(ahead.y, static_cast<Real>(level.height)), true}
                             : point_at<Real>(p, PointRow(p, b, at.q, m), level, at.l, at.k);
    if (!point.is_number) return -1;
    // Written so that NaN and infinite numbers are outside. Beyond these bounds the floor may not
    // fit an integer.
    if (!(point.x >= -1 && point.x < static_cast<Real>(level.width))) return -1;
    if (!(point.y >= -1 && point.y < static_cast<Real>(level.height))) return -1;
    auto const cell_x = static_cast<std::int32_t>(floor(point.x)) + 1;
    auto const cell_y = static_cast<std::int32_t>(floor(point.y)) + 1;
    return tile_of_cell(s, at.l, cell_x, cell_y);
  }
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
template <typename Real, bool kNearest, class Fn>
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
      long long const tile = tile_of<kNearest>(p, s, chunk.b, chunk.m, points[j]);
      unsigned const same = __match_any_sync(kAllLanes, tile);
      unsigned const before = same & lanes_before();
      fn(base + j * kWarp + lane_index(), tile < 0 ? nullptr : chunk.places + tile * s.chunks,
         __popc(before), __popc(same));
    }
  }
}

template <typename Real, bool kNearest>
static __global__ void __launch_bounds__(kThreads, 1)
    count_tiles(const __grid_constant__ Params p, const __grid_constant__ BinParams s) {
  ptx::wait_for_previous_grid();
  std::int64_t const jobs = s.heads * s.chunks;
  for (std::int64_t job = warp_index(); job < jobs; job += warp_count()) {
    for_each_near_point<Real, kNearest>(
        p, s, Chunk(p, s, job), [](std::int64_t, std::int64_t* place, int before, int same) {
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
      std::int64_t const first = base + warp_of() * kWarp * kCountsOfLane + lane_index();
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
      if (lane_index() == 0) sums[warp_of()] = of_warp;
      __syncthreads();
      std::int64_t place = before;
#pragma unroll
      for (int w = 0; w < kWarpsPerBlock; ++w) {
        if (w < warp_of()) place += sums[w];
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
template <typename Real, bool kNearest>
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
    for_each_near_point<Real, kNearest>(p, s, chunk, list);
  }
}

// ---- their sums

// One point as the lane that located it leaves it in shared memory for all lanes.
template <typename Sum>
struct alignas(16) Scatter {
  std::int64_t at[4];   // elements of the sums at which its corners' rows begin; -1: no such corner
  std::int64_t output;  // that of grad_output at which its query's row begins
  Sum weight[4];
  bool opens_cell;  // else the corners are those of the point before
};

// Locates point i of a head; returns a number that points of the same cell have, and no others.
template <typename Real, bool kNearest, typename Sum>
__device__ long long scatter_point(Params const& p, std::int64_t b, std::int64_t m, std::int64_t i,
                                   Sum scale, Scatter<Sum>& scatter) {
  HeadPoint const at(p, i);
  LevelParams const level = p.level(at.l);
  Row<Real> const row(p, b, at.q, m);
  Corners<Real> const corners =
      corners_of<Real>(level, place_of<Real, kNearest>(p, row.at, level, at.l, at.k));
  Sum const weight = static_cast<Sum>(row.weight(p, at.k)) * scale;
  std::int64_t const first = b * p.token_count * p.head_count + m;
  // Two cells in columns -1 and W - 1 may have one token as their first corner, where maps have no
  // border; but the pixels that are there differ.
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

// The place of a lane's point if those of a cell follow each other, cells in the order of their
// first lanes.
struct Turn {
  int place;
  bool is_first;  // of its cell

  __device__ explicit Turn(long long cell) {
    unsigned const same = __match_any_sync(kAllLanes, cell);
    int const before = __popc(same & lanes_before());
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

template <ValueType kType, typename Real, bool kNearest>
__global__ void __launch_bounds__(kThreads, sizeof(Real) == 4 ? 3 : 1)
    add_tiles(const __grid_constant__ Params p, const __grid_constant__ BinParams s, int turn) {
  using Sum = typename ValueTraits<kType>::Sum;
  MSDA_SHARED(Scatter<Sum>, points_of_warps, [kWarpsPerBlock][kWarp]);
  ptx::wait_for_previous_grid();
  Scatter<Sum>* const points = points_of_warps[warp_of()];
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
        cell = scatter_point<Real, kNearest>(p, b, m, list[base + lane_index()], scale, mine);
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
