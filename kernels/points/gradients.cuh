// Gradients by coordinates and weights of one group of points: the forward's gather, with products
// of each corner's row and the row of grad_output.
//
// A slot of lanes owns one row, a (batch, query, head); a lane has 8 of its channels of grad_output
// in registers. The points that a slot locates at once are a group of points: a lane locates one,
// all lanes load the four corners of each and multiply, and the products are summed so that each
// lane ends with those of its own point (products.cuh). A 16-bit row of 32 channels has a slot of
// several groups of four lanes, which take different points or the two sides of each.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/points/fused.cuh"
#include "kernels/points/products.cuh"

namespace msda::points {

// Hands the corners of points from the lane that has located a point to those that load it, by
// shuffles. kSides: a load has the top and bottom corner, on the side of the lane's group, of the
// points of both groups of its pair.
template <class Config>
class ShuffledCorners {
 public:
  struct Tokens {
    std::uint32_t token[4];

    __device__ __forceinline__ std::uint32_t operator[](int corner) const { return token[corner]; }
  };

  __device__ __forceinline__ void hand_out(LocatedPoint const& mine) {
    token_ = mine.token;
    strides_ = mine.strides();
  }
  // The corners of load `j`.
  __device__ __forceinline__ Tokens operator[](int j) const {
    int const source = Config::Products::source(j);
    if constexpr (Config::kSides) {
      int const pair = lane_of() & ~7;  // its first lane
      bool const is_right = (lane_of() & 4) != 0;
      Tokens tokens;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        std::uint32_t const first = __shfl_sync(kAllLanes, token_, pair + 4 * i + source);
        std::uint32_t const strides = __shfl_sync(kAllLanes, strides_, pair + 4 * i + source);
        tokens.token[2 * i] = first + (is_right ? strides & 1 : 0);
        tokens.token[2 * i + 1] = tokens.token[2 * i] + (strides >> 1);
      }
      return tokens;
    }
    std::uint32_t const first = __shfl_sync(kAllLanes, token_, source, Config::kPoints);
    std::uint32_t const strides = __shfl_sync(kAllLanes, strides_, source, Config::kPoints);
    std::uint32_t const beside = strides & 1, below = strides >> 1;
    return {{first, first + beside, first + below, first + below + beside}};
  }

 private:
  std::uint32_t token_, strides_;
};

// kRowsOfWarp: a warp has so many 16-bit rows of 32 channels, whose groups of lanes take different
// points; 0: a row is one group. kKind: where input is plain, every lane of a slot has channels.
// kHasSides: where a row has several groups of lanes, one loads the left corners of a point,
// another the right ones.
template <ValueType kValueType, Loads kLoads, int kRowLanes, int kRowsOfWarp = 0,
          Input kKind = Input::any, bool kHasSides = false>
struct PointConfig {
  static constexpr ValueType kType = kValueType;
  static constexpr Input kInput = kKind;
  static constexpr msda_dtype kDtype = dtype_of(kValueType);
  static constexpr bool kVectors = kLoads == Loads::vectors;
  static constexpr bool kPlain = kInput != Input::any;
  static constexpr int kElementBytes = sizeof(typename ValueTraits<kType>::Element);
  static constexpr int kLanes = kRowLanes;  // that have the channels of a row
  using Row = Channels<kType, kLoads>;
  static constexpr int kWarpRows =
      kRowsOfWarp > 0 && Row::kNarrow&& kLanes == 4 ? kRowsOfWarp : kWarp / kLanes;
  static constexpr int kLaneGroups = kWarp / kLanes / kWarpRows;  // of kLanes lanes, a slot
  static constexpr bool kPaired = kLaneGroups > 1;
  static constexpr bool kSides = kHasSides && kPaired;
  static constexpr int kSlotLanes = kLaneGroups * kLanes;
  static constexpr int kSlots = kPointThreads / kSlotLanes;
  static constexpr int kPoints =
      kLanes < kPointsAtOnce ? kLanes : kPointsAtOnce;        // of a group of lanes
  static constexpr int kGroupPoints = kLaneGroups * kPoints;  // that a slot locates at once
  // Corners of a point that are loaded before the first is multiplied.
  static constexpr int kCorners = Row::kNarrow ? 4 : 2;
  static_assert(kLanes <= kWarp && (kLanes & (kLanes - 1)) == 0,
                "the lanes of a row are a power of two of one warp");
  using Products = std::conditional_t<
      kPaired, PairProducts<PointConfig>,
      std::conditional_t<Row::kNarrow && kPoints == 4, MatrixProducts<PointConfig>,
                         ScalarProducts<PointConfig>>>;
  using Corners = ShuffledCorners<PointConfig>;
  // Points whose corners are loaded before the first are multiplied.
  static constexpr int kInFlight = kCorners < 4 || kPoints < 2 ? 1 : 2;
  // Loads that are unrolled: more would take too many registers at once.
  static constexpr int kUnrolled = !kPaired && Row::kNarrow && kPoints == 4 ? 1 : kPoints;
  static constexpr int kBlocks = kVectors ? kPointBlocks : 1;  // an SM
  // Whether the softmax of a row looks at the sum of powers before it looks for the largest logit:
  // that takes registers for both.
  static constexpr bool kPowersFirst = false;

  // The number of the lane's slot in the block.
  __device__ __forceinline__ static int slot() {
    if constexpr (kPaired) return warp_of() * kWarpRows + PairLane<kWarpRows, kSides>().row;
    return static_cast<int>(threadIdx.x) / kSlotLanes;
  }
  // The point of the slot's group that the lane locates.
  __device__ __forceinline__ static int own_point() {
    if constexpr (kPaired) {
      return PairLane<kWarpRows, kSides>().group + kLaneGroups * (lane_of() % kLanes);
    }
    return lane_of() % kPoints;
  }
  // Calls fn with the distances of the lanes that locate a group of a row's points, so that values
  // are joined in one order wherever the lanes lie.
  template <class Fn>
  __device__ __forceinline__ static void for_lanes_of_row(Fn fn) {
#pragma unroll
    for (int distance = 1; distance < kPoints; distance *= 2) fn(distance);
#pragma unroll
    for (int groups = 1; groups < kLaneGroups; groups *= 2) {
      fn(kLanes * groups * (kSides ? 1 : kWarpRows));
    }
  }
};

// A lane's channels of the tokens of one head.
template <class Config>
class ValueRows {
 public:
  using Row = typename Config::Row;

  __device__ __forceinline__ ValueRows(Params const& p, std::int64_t first, bool has_channels)
      : p_(p),
        first_(first),
        at_(static_cast<const char*>(p.value) + first * Config::kElementBytes),
        stride_(static_cast<std::uint32_t>(p.value_strides.row) * Config::kElementBytes),
        has_channels_(has_channels) {
    if constexpr (Config::kVectors) ptx::pin(at_);
  }
  __device__ __forceinline__ Row operator[](std::uint32_t token) const {
    if (!Config::kPlain && !has_channels_) return Row::zeros();
    // One instruction of 32 bits: row_stride_fits() has been asked where rows are vectors.
    if constexpr (Config::kVectors) return Row::load_at(ptx::row_at(at_, token, stride_));
    return Row::load(Config::kDtype, p_.value, first_ + token * p_.value_strides.row);
  }

 private:
  Params const& p_;
  std::int64_t first_;  // element
  const char* at_;
  std::uint32_t stride_;  // bytes
  bool has_channels_;
};

// Loads the corners of kInFlight points, beginning with load `j`, kCorners at a time, and
// multiplies them.
template <class Config>
__device__ __forceinline__ void multiply_corners(ValueRows<Config> const& values,
                                                 typename Config::Corners const& corners, int j,
                                                 typename Config::Products& products) {
  using Row = typename Config::Row;
#pragma unroll
  for (int base = 0; base < 4; base += Config::kCorners) {
    Row rows[Config::kInFlight][Config::kCorners];
#pragma unroll
    for (int i = 0; i < Config::kInFlight; ++i) {
      auto const tokens = corners[j + i];
#pragma unroll
      for (int c = 0; c < Config::kCorners; ++c) rows[i][c] = values[tokens[base + c]];
    }
#pragma unroll
    for (int i = 0; i < Config::kInFlight; ++i) {
#pragma unroll
      for (int c = 0; c < Config::kCorners; ++c) products.multiply(j + i, base + c, rows[i][c]);
    }
  }
}

struct PointGradient {
  float x, y;  // by the position in pixels; the attention weight is part of them
  float weight;
};

__device__ __forceinline__ PointGradient point_gradient(LocatedPoint const& at, float weight,
                                                        float (&d)[4]) {
#pragma unroll
  for (int corner = 0; corner < 4; ++corner) {
    if (!at.inside(corner)) d[corner] = 0.0f;
  }
  float const left = 1.0f - at.fx;
  float const top = 1.0f - at.fy;
  float sample = (left * top) * d[0];
  sample = fmaf(at.fx * top, d[1], sample);
  sample = fmaf(left * at.fy, d[2], sample);
  sample = fmaf(at.fx * at.fy, d[3], sample);
  PointGradient const gradient = {weight * (top * (d[1] - d[0]) + at.fy * (d[3] - d[2])),
                                  weight * (left * (d[2] - d[0]) + at.fx * (d[3] - d[1])), sample};
  // A point without corners has none, whatever its weight is.
  return at.corners == 0 ? PointGradient{0.0f, 0.0f, 0.0f} : gradient;
}

// Stores the gradient of a point's coordinate or offset at element `to`; the point is number
// `of_pass` of those of the pass.
__device__ __forceinline__ void store_coord(Params const& p, msda_dtype dtype, float* by_pixel,
                                            std::int64_t of_pass, std::int64_t to,
                                            LocatedPoint const& at, PointGradient const& gradient,
                                            bool pairs) {
  if (by_pixel != nullptr) {
    reinterpret_cast<float2*>(by_pixel)[of_pass] = {gradient.x, gradient.y};
  }
  if (p.grad_coord == nullptr) return;
  // A box that is no number has no point on a map, and its scale would make NaN of zero.
  bool const is_there = at.corners != 0;
  float2 const by_coord = {is_there ? gradient.x * at.x_scale : 0.0f,
                           is_there ? gradient.y * at.y_scale : 0.0f};
  store_pair(dtype, p.grad_coord, to, by_coord, pairs);
}

// The elements of a row's gradients by coordinates and by weights, from point `own` on. Element:
// an integer that numbers those of the tensors.
template <class Element>
struct GradientRow {
  Element coord = 0, weight = 0;

  GradientRow() = default;
  __device__ __forceinline__ GradientRow(Params const& p, Element b, Element q, Element m,
                                         Element own)
      : coord(at(p.grad_coord_strides, b, q, m) + 2 * own),
        weight(at(p.grad_weight_strides, b, q, m) + own) {}

 private:
  __device__ __forceinline__ static Element at(StrideParams const& strides, Element b, Element q,
                                               Element m) {
    return b * static_cast<Element>(strides.batch) + q * static_cast<Element>(strides.row) +
           m * static_cast<Element>(strides.head);
  }
};

// Stores zeros for the gradients of all points: a thread takes a point.
static __global__ void __launch_bounds__(kPointThreads, 4)
    clear_points(const __grid_constant__ Params p) {
  ptx::wait_for_previous_grid();
  std::int64_t const i = static_cast<std::int64_t>(blockIdx.x) * kPointThreads + threadIdx.x;
  std::int64_t const row = i / p.point_total;
  std::int64_t const query = row / p.head_count;
  std::int64_t const b = query / p.query_count;
  if (b >= p.batch) return;
  GradientRow<std::int64_t> const to(p, b, query - b * p.query_count, row - query * p.head_count,
                                     i - row * p.point_total);
  if (p.grad_coord != nullptr) {
    store_pair(p.coord_dtype, p.grad_coord, to.coord, make_float2(0.0f, 0.0f), false);
  }
  if (p.grad_weight != nullptr) store_narrow(p.weight_dtype, p.grad_weight, to.weight, 0.0f);
}

// The row's channels of grad_output, from the lane's first one on.
template <class Config>
__device__ __forceinline__ typename Config::Row load_grad(Params const& p, RowIndex const& row,
                                                          int d) {
  using Row = typename Config::Row;
  if (!Config::kPlain && d >= p.head_dim) return Row::zeros();
  return Row::load(p.output_dtype, p.grad_output, p.output_strides.at(row.b, row.q, row.m) + d);
}

template <bool kLevelsApart>
static EngineKernels load_engine() {
  return {load_kernel(clear_points), load_kernel(sum_references<kLevelsApart>), kLevelsApart};
}

}  // namespace msda::points
