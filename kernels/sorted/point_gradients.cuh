// Gradients by coordinates and weights: the forward's gather with products of each corner's row and
// the row of grad_output.
//
// A slot of lanes owns one row, a (batch, query, head); a lane has 8 of its channels of grad_output
// in registers. Each lane of four locates a point, all lanes load the four corners of each and
// multiply, and the products are summed so that each lane ends with those of its own point
// (corner_products.cuh). A 16-bit row of 32 channels has a slot of several groups of four lanes,
// which take different points or the two sides of each; of plain input, paired_points.cuh.
#pragma once

#include "kernels/sorted/channels.cuh"
#include "kernels/sorted/corner_places.cuh"
#include "kernels/sorted/corner_products.cuh"
#include "kernels/sorted/located_points.cuh"

namespace msda::sorted {

// kRowsOfWarp: of 16-bit rows of 32 channels a warp has so many, whose groups of lanes take
// different points; 0: a row is one group. kIsPlain: every lane of a slot has channels, and the
// input is sampled, with coordinates that are pairs of F32. kHasSides: of a point one group of
// lanes loads the left corners, another the right ones, where there are several.
template <ValueType kValueType, Loads kLoads, int kRowLanes, int kRowsOfWarp = 0,
          bool kIsPlain = false, bool kHasSides = false>
struct PointConfig {
  static constexpr ValueType kType = kValueType;
  static constexpr msda_dtype kDtype = dtype_of(kValueType);
  static constexpr bool kVectors = kLoads == Loads::vectors;
  static constexpr bool kPlain = kIsPlain;
  static constexpr int kElementBytes = sizeof(typename ValueTraits<kType>::Element);
  static constexpr int kLanes = kRowLanes;  // that have the channels of a row
  using Row = Channels<kType, kLoads>;
  static constexpr int kWarpRows =
      kRowsOfWarp > 0 && Row::kNarrow&& kLanes == 4 ? kRowsOfWarp : kWarp / kLanes;
  static constexpr int kGroups = kWarp / kLanes / kWarpRows;  // of as many lanes, a slot
  static constexpr bool kPaired = kGroups > 1;
  static constexpr bool kSides = kHasSides && kPaired;
  static constexpr int kSlotLanes = kGroups * kLanes;
  static constexpr int kSlots = kPointThreads / kSlotLanes;
  static constexpr int kPoints = kLanes < kTogether ? kLanes : kTogether;  // located by a group
  static constexpr int kLocated = kGroups * kPoints;
  // Corners of a point that are loaded before the first is multiplied.
  static constexpr int kCorners = Row::kNarrow ? 4 : 2;
  static_assert(kLanes <= kWarp && (kLanes & (kLanes - 1)) == 0);
  using Products = std::conditional_t<
      kPaired, PairProducts<PointConfig>,
      std::conditional_t<Row::kNarrow && kPoints == 4, MatrixProducts<PointConfig>,
                         ScalarProducts<PointConfig>>>;
  using Corners = ShuffledCorners<PointConfig>;
  // Points whose corners are loaded before the first are multiplied.
  static constexpr int kInFlight = kCorners < 4 || kPoints < 2 ? 1 : 2;
  // Steps that are told apart when compiled: the others take too many registers at once.
  static constexpr int kUnrolled = !kPaired && Row::kNarrow && kPoints == 4 ? 1 : kPoints;
  static constexpr int kBlocks = kVectors ? kPointBlocks : 1;  // an SM

  // The lane's slot of the block's.
  __device__ __forceinline__ static int slot() {
    if constexpr (kPaired) return warp_of() * kWarpRows + PairLane<kWarpRows, kSides>().row;
    return static_cast<int>(threadIdx.x) / kSlotLanes;
  }
  // The point that the lane locates, of the slot's kLocated.
  __device__ __forceinline__ static int own_point() {
    if constexpr (kPaired) {
      return PairLane<kWarpRows, kSides>().group + kGroups * (lane_of() % kLanes);
    }
    return lane_of() % kPoints;
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
    // Vectors by one instruction of 32 bits: sorted.cpp sees to it that the stride fits.
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

// Loads kCorners corners of kInFlight points, beginning with those of step `j`, and multiplies
// them.
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
  float x, y, weight;  // the attention weight is part of x and y
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
  PointGradient const gradient = {
      weight * at.width * (top * (d[1] - d[0]) + at.fy * (d[3] - d[2])),
      weight * at.height * (left * (d[2] - d[0]) + at.fx * (d[3] - d[1])), sample};
  // Of no corner: whatever the weight is.
  return at.corners == 0 ? PointGradient{0.0f, 0.0f, 0.0f} : gradient;
}

template <bool kPlain>
__device__ __forceinline__ void store_gradient(Params const& p, PointParams const& s,
                                               std::int64_t row, std::int64_t k,
                                               PointGradient const& gradient) {
  if (!kPlain && s.raw != nullptr) {
    float* const to = s.raw + (row * p.point_total + k) * 3;
    to[0] = gradient.x;
    to[1] = gradient.y;
    to[2] = gradient.weight;
    return;
  }
  std::int64_t const at = (s.first_query * p.head_count + row) * p.point_total + k;
  if (p.grad_weight != nullptr) {
    store_narrow(p.weight_dtype, p.grad_weight, at, gradient.weight);
  }
  if (p.grad_coord != nullptr) {
    store_pair(kPlain ? MSDA_DTYPE_F32 : p.coord_dtype, p.grad_coord, 2 * at,
               {gradient.x, gradient.y}, s.grad_coord_pairs);
  }
}

// The row's channels of grad_output, from the lane's first one on.
template <class Config>
__device__ __forceinline__ typename Config::Row load_grad(Params const& p, PointGradRow const& row,
                                                          int d) {
  using Row = typename Config::Row;
  if (!Config::kPlain && d >= p.head_dim) return Row::zeros();
  return Row::load(p.output_dtype, p.grad_output, p.output_strides.at(row.b, row.q, row.m) + d);
}

// A row; kPlain: its first points and its grad_output are on their way.
template <class Config>
struct RowAhead {
  PointLoads<Config::kPlain> loads;
  PointAhead points;
  typename Config::Row plain_grad;

  __device__ __forceinline__ RowAhead(Params const& p, PointParams const& s,
                                      PointGradRow const& row, int d)
      : loads(p, s, row) {
    if constexpr (Config::kPlain) {
      points = loads[Config::own_point()];
      plain_grad = load_grad<Config>(p, row, d);
    }
  }
  __device__ __forceinline__ typename Config::Row grad(Params const& p, PointGradRow const& row,
                                                       int d) const {
    if constexpr (Config::kPlain) return plain_grad;
    return load_grad<Config>(p, row, d);
  }
};

// A block takes neighbouring rows, of two heads if their number is even: their points lie near each
// other and meet in L1, where a line has the values of both. kPlain: while the last points of a row
// are worked on the next row is loaded.
template <class Config>
static __global__ void __launch_bounds__(kPointThreads, Config::kBlocks)
    point_gradients(const __grid_constant__ Params p, const __grid_constant__ PointParams s) {
  ptx::wait_for_previous_grid();
  typename Config::Corners corners;
  int const d = static_cast<int>(threadIdx.x % Config::kLanes) * kChannelsOfLane;
  int const own = Config::own_point();
  auto const points = static_cast<std::int32_t>(p.point_total);
  bool const locates = static_cast<int>(threadIdx.x % Config::kSlotLanes) < Config::kLocated;
  std::int64_t const first = static_cast<std::int64_t>(blockIdx.x) * s.rows_of_block;
  PointGradRow row(p, s, first + Config::slot());
  RowAhead<Config> next(p, s, row, d);
  auto const go_on = [&] {
    row.advance(p, s);
    next = RowAhead<Config>(p, s, row, d);
  };
  for (std::int64_t i = 0; i < s.rows_of_block; i += Config::kSlots) {
    ValueRows<Config> const values(
        p, row.b * p.value_strides.batch + row.m * p.value_strides.head + d, d < p.head_dim);
    typename Config::Products products(next.grad(p, row, d));
    std::int64_t const index = row.index(p);
    bool const stores = row.is_there && locates;
    bool const has_next = i + Config::kSlots < s.rows_of_block;
#pragma unroll 1
    for (std::int32_t batch = 0; batch < points; batch += Config::kLocated) {
      std::int32_t const k = batch + own;
      PointAhead const ahead = Config::kPlain ? next.points : next.loads[k];
      LocatedPoint const mine = locate_point(next.loads, ahead, k);
      float const weight = next.loads.weight(ahead);
      if constexpr (Config::kPlain) {
        if (batch + Config::kLocated < points) {
          next.points = next.loads[k + Config::kLocated];
        } else if (has_next) {
          go_on();
        }
      }
      corners.hand_out(mine);
#pragma unroll Config::kUnrolled
      for (int j = 0; j < Config::kPoints; j += Config::kInFlight) {
        multiply_corners<Config>(values, corners, j, products);
      }
      float sums[4];
      products.sum(sums);
      if (!stores || k >= points) continue;
      store_gradient<Config::kPlain>(p, s, index, k, point_gradient(mine, weight, sums));
    }
    if (!Config::kPlain && has_next) go_on();  // before, others have no registers for it
  }
}

}  // namespace msda::sorted
