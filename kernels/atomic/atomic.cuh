// All gradients in one pass over the points: those of coordinates and weights by the engine
// points/, that of the values by atomic additions to float32 sums.
//
// A slot of lanes takes a row, or a part of its points. A lane has 8 of the row's channels twice:
// those that one load of 16 bytes gives, for the products, and the quads `lane` and `lane` +
// kLanes, for the additions: neighbouring lanes then add to neighbouring 16 bytes, and a slot of 4
// to whole sectors. For 32 points of D = 32 a warp issues 16 loads, 32 matrix products and 32
// additions of 512 bytes; 770 instructions in all.
//
// CUDA files go on with MSDA_INSTANTIATE(type, revision, sm) for each row of variants.inc.
#pragma once

#include "kernels/atomic/atomic.h"
#include "kernels/common/launch.h"
#include "kernels/common/ptx.cuh"
#include "kernels/points/gradients.cuh"

namespace msda::atomic {

using points::LocatedPoint;
using points::RowIndex;

// The channels of grad_output that a lane adds, and where it adds them to.
template <class Config>
struct AddedRow {
  float4 grad[2];
  bool has[2];
  std::int64_t first;  // element of the sums: the head's, of pixel 0, from the lane's channel on
  std::int64_t pixel;  // elements from a pixel to the next

  __device__ __forceinline__ AddedRow(Params const& p, RowIndex const& row)
      : first(((row.b * p.token_count * p.head_count) + row.m) * p.head_dim + channel(0)),
        pixel(p.head_count * p.head_dim) {
    std::int64_t const output = p.output_strides.at(row.b, row.q, row.m);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      has[i] = row.is_there && channel(i) < p.head_dim;
      grad[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (!has[i]) continue;
      std::int64_t const at = output + channel(i);
      grad[i] = make_float4(load(p, at), load(p, at + 1), load(p, at + 2), load(p, at + 3));
    }
  }

  static constexpr int kHalfStride =
      4 * Config::kLanes;  // channels from a lane's quad to its other one

 private:
  __device__ __forceinline__ static int channel(int i) {
    return static_cast<int>(threadIdx.x % Config::kLanes) * 4 + i * kHalfStride;
  }
  __device__ __forceinline__ static float load(Params const& p, std::int64_t at) {
    return load_element<float>(p.output_dtype, p.grad_output, at);
  }
};

__device__ __forceinline__ void add_four(float* to, float weight, float4 const& grad,
                                         bool vectors) {
  float4 const sum =
      make_float4(weight * grad.x, weight * grad.y, weight * grad.z, weight * grad.w);
  if (vectors) {
    ptx::add_global(to, sum.x, sum.y, sum.z, sum.w);
  } else {
    atomicAdd(to, sum.x);
    atomicAdd(to + 1, sum.y);
    atomicAdd(to + 2, sum.z);
    atomicAdd(to + 3, sum.w);
  }
}

// Adds the terms of point `j`, among those that the lanes have located, to its corners.
template <class Config>
__device__ __forceinline__ void add_to_corners(AddParams const& s, AddedRow<Config> const& row,
                                               LocatedPoint const& mine, float my_weight, int j) {
  unsigned my_corners = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) my_corners |= mine.inside(i) ? 1u << i : 0u;
  unsigned const corners = __shfl_sync(kAllLanes, my_corners, j, Config::kPoints);
  std::int64_t const token = __shfl_sync(kAllLanes, mine.token, j, Config::kPoints);
  std::uint32_t const strides = __shfl_sync(kAllLanes, mine.strides(), j, Config::kPoints);
  float const fx = __shfl_sync(kAllLanes, mine.fx, j, Config::kPoints);
  float const fy = __shfl_sync(kAllLanes, mine.fy, j, Config::kPoints);
  float const weight = __shfl_sync(kAllLanes, my_weight, j, Config::kPoints);
  float* const first = s.sums + row.first + token * row.pixel;
  std::int64_t const beside = (strides & 1) != 0 ? row.pixel : 0;
  std::int64_t const below = static_cast<std::int64_t>(strides >> 1) * row.pixel;
  float const of_row[2] = {weight * (1.0f - fy), weight * fy};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if ((corners >> i & 1) == 0) continue;
    float* const to = first + ((i & 1) != 0 ? beside : 0) + ((i & 2) != 0 ? below : 0);
    float const of_corner = of_row[i >> 1] * ((i & 1) != 0 ? fx : 1.0f - fx);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (row.has[half]) {
        add_four(to + half * row.kHalfStride, of_corner, row.grad[half], s.vector_sums);
      }
    }
  }
}

// Stores the gradients of the kPoints points that the slot has located; `own` is the lane's. Those
// of fused input's weights are on their way to those of logits.
template <class Config, class Products>
__device__ __forceinline__ void point_gradients_of(Params const& p, AddParams const& s,
                                                   RowIndex const& row, LocatedPoint const& mine,
                                                   float weight, std::int64_t own,
                                                   Products& products) {
  int const d = static_cast<int>(threadIdx.x % Config::kLanes) * points::kChannelsOfLane;
  points::ValueRows<Config> const values(
      p, row.b * p.value_strides.batch + row.m * p.value_strides.head + d, d < p.head_dim);
  typename Config::Corners corners;
  corners.hand_out(mine);
#pragma unroll Config::kUnrolled
  for (int j = 0; j < Config::kPoints; j += Config::kInFlight) {
    points::multiply_corners<Config>(values, corners, j, products);
  }
  float sums[4];
  products.sum(sums);
  bool const stores =
      row.is_there && static_cast<int>(threadIdx.x % Config::kLanes) < Config::kPoints;
  if (!stores || own >= p.point_total) return;
  points::PointGradient const gradient = points::point_gradient(mine, weight, sums);
  std::int64_t const index = row.index(p) * p.point_total + own;
  points::GradientRow<std::int64_t> const to(p, row.b, row.q, row.m, own);
  points::store_coord(p, p.coord_dtype, s.points.by_pixel, index, to.coord, mine, gradient,
                      s.points.grad_coord_pairs);
  if (s.gradients != nullptr) {
    s.gradients[index] = gradient.weight;
  } else if (p.grad_weight != nullptr) {
    store_narrow(p.weight_dtype, p.grad_weight, to.weight, gradient.weight);
  }
}

template <class Config>
static __global__ void __launch_bounds__(points::kPointThreads,
                                         Config::kVectors&& Config::Row::kNarrow ? 2 : 1)
    add_rows(const __grid_constant__ Params p, const __grid_constant__ AddParams s) {
  ptx::wait_for_previous_grid();
  using Row = typename Config::Row;
  // Rows times parts fit 32 bits.
  std::uint32_t const item = blockIdx.x * Config::kSlots + threadIdx.x / Config::kLanes;
  auto const parts = static_cast<std::uint32_t>(s.parts);
  RowIndex const row(p, s.points, item / parts);
  points::PointLoads<points::Input::any> const loads(p, s.points, row);
  int const d = static_cast<int>(threadIdx.x % Config::kLanes) * points::kChannelsOfLane;
  std::int64_t const grad = p.output_strides.at(row.b, row.q, row.m) + d;
  typename Config::Products products(d < p.head_dim ? Row::load(p.output_dtype, p.grad_output, grad)
                                                    : Row::zeros());
  std::int64_t const begin = item % parts * s.part_points;
#pragma unroll 1
  for (std::int64_t i = 0; i < s.part_points; i += Config::kPoints) {
    std::int64_t const own = begin + i + lane_of() % Config::kPoints;
    points::LoadedPoint const loaded = loads[own];
    LocatedPoint const mine =
        points::locate_point(loaded, loads.level(own), loads.is_fused(), p.reference_dim == 4);
    float weight = loads.weight(loaded.weight);
    if (loads.is_fused() && own < p.point_total) {
      weight = s.weights[row.index(p) * p.point_total + own];
    }
    if (s.sums != nullptr) {
      // Loaded once more for each group of points: registers for it would be too many.
      AddedRow<Config> const added(p, row);
#pragma unroll 1
      for (int j = 0; j < Config::kPoints; ++j) {
        add_to_corners<Config>(s, added, mine, weight, j);
      }
    }
    if (s.wants_points) point_gradients_of<Config>(p, s, row, mine, weight, own, products);
  }
}

// Converts sums to the type of grad_value: 4 bytes are read and 2 stored for an element of 16 bits.
// A thread has kConvertQuads quads in flight; neighbouring threads have neighbouring quads.
static __global__ void __launch_bounds__(kConvertThreads, 4)
    convert_sums(const __grid_constant__ Params p, const __grid_constant__ ConvertParams s) {
  ptx::wait_for_previous_grid();
  std::int64_t const first =
      static_cast<std::int64_t>(blockIdx.x) * (kConvertThreads * kConvertQuads) + threadIdx.x;
  float4 sums[kConvertQuads];
#pragma unroll
  for (int j = 0; j < kConvertQuads; ++j) {
    std::int64_t const i = first + j * kConvertThreads;
    if (i < s.quads) sums[j] = reinterpret_cast<const float4*>(s.sums)[i];
  }
#pragma unroll
  for (int j = 0; j < kConvertQuads; ++j) {
    std::int64_t const i = first + j * kConvertThreads;
    if (i >= s.quads) return;
    store_four(p.grad_value_dtype, p.grad_value, kQuadChannels * i, sums[j], s.aligned_result);
  }
}

// ---- fused input: weights by softmax before the points, whose slots may divide a row among them,
// and the gradients of logits behind them. softmax_rows reads a logit two times and stores a weight
// of 4 bytes a point; logit_gradients reads the weight and its gradient two times.

// A row that kRowLanes lanes take, in the order [query][head].
struct LogitRow {
  std::int64_t index;
  std::int64_t b, q, m;
  bool is_there;  // else it is the last row once more, and nothing is stored
  int lane;

  __device__ __forceinline__ LogitRow(Params const& p, LogitParams const& s)
      : lane(lane_of() % kRowLanes) {
    std::int64_t const i =
        (static_cast<std::int64_t>(blockIdx.x) * kRowThreads + threadIdx.x) / kRowLanes;
    is_there = i < s.rows;
    index = is_there ? i : s.rows - 1;
    std::int64_t const query = index / p.head_count;
    b = query / p.query_count;
    q = query - b * p.query_count;
    m = index - query * p.head_count;
  }
};

static __global__ void __launch_bounds__(kRowThreads, 4)
    softmax_rows(const __grid_constant__ Params p, const __grid_constant__ LogitParams s) {
  ptx::wait_for_previous_grid();
  LogitRow const row(p, s);
  std::int64_t const logits = p.weight_strides.at(row.b, row.q, row.m);
  float largest = -INFINITY;
  for (std::int64_t k = row.lane; k < p.point_total; k += kRowLanes) {
    largest = fmaxf(largest, load_narrow(p.weight_dtype, p.weight, logits + k));
  }
  largest = largest_of_lanes(largest, kRowLanes);
  float sum = 0.0f;
  for (std::int64_t k = row.lane; k < p.point_total; k += kRowLanes) {
    sum += expf(load_narrow(p.weight_dtype, p.weight, logits + k) - largest);
  }
  float const of_powers = reciprocal(sum_of_lanes(sum, kRowLanes));
  if (!row.is_there) return;
  for (std::int64_t k = row.lane; k < p.point_total; k += kRowLanes) {
    s.weights[row.index * p.point_total + k] =
        expf(load_narrow(p.weight_dtype, p.weight, logits + k) - largest) * of_powers;
  }
}

// Stores weight_k (g_k - sum_j weight_j g_j), where g_k is the gradient of weight k.
static __global__ void __launch_bounds__(kRowThreads, 4)
    logit_gradients(const __grid_constant__ Params p, const __grid_constant__ LogitParams s) {
  ptx::wait_for_previous_grid();
  LogitRow const row(p, s);
  std::int64_t const first = row.index * p.point_total;
  std::int64_t const to = p.grad_weight_strides.at(row.b, row.q, row.m);
  const float* const weights = s.weights + first;
  const float* const gradients = s.gradients + first;
  float mean = 0.0f;
  for (std::int64_t k = row.lane; k < p.point_total; k += kRowLanes) {
    mean = fmaf(weights[k], gradients[k], mean);
  }
  mean = sum_of_lanes(mean, kRowLanes);
  if (!row.is_there) return;
  for (std::int64_t k = row.lane; k < p.point_total; k += kRowLanes) {
    store_narrow(p.weight_dtype, p.grad_weight, to + k, weights[k] * (gradients[k] - mean));
  }
}

// ---- the kernels of a row of variants.inc

template <ValueType kType>
Kernels load_kernels(KernelOptions options) {
  using points::Loads;
  using points::PointConfig;
  Kernels kernels;
  kernels.softmax = load_kernel(softmax_rows);
  kernels.logits = load_kernel(logit_gradients);
  kernels.engine = points::load_engine<false>();
  kernels.convert = load_kernel(convert_sums);
  points::with_lanes<kWarp>(options.head_dim, [&](auto lanes) {
    using Config = PointConfig<kType, Loads::vectors, lanes>;
    kernels.add[1] = load_kernel(add_rows<Config>);
    kernels.add[0] = options.same_types
                         ? load_kernel(add_rows<PointConfig<kType, Loads::elements, lanes>>)
                         : load_kernel(add_rows<PointConfig<kType, Loads::any, lanes>>);
    kernels.slots = Config::kSlots;
    kernels.points = Config::kPoints;
  });
  return kernels;
}

}  // namespace msda::atomic

#define MSDA_INSTANTIATE(type, revision, sm)                                        \
  template msda::atomic::Kernels msda::atomic::load_kernels<msda::ValueType::type>( \
      msda::atomic::KernelOptions);
