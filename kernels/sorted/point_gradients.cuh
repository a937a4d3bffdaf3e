// Gradients by coordinates and weights: the forward's gather with products of each corner's row and
// the row of grad_output.
//
// A slot of lanes owns one row, a (batch, query, head); a lane has 8 of its channels of grad_output
// in registers. Four points at a time: each lane of four locates one, all lanes load four corners
// of each and multiply, and the products are summed so that each lane ends with those of its own
// point: 12 shuffles for four points instead of 32. For 8 points of D = 32 a warp issues 4 loads,
// 64 conversions and multiply-adds, 12 instructions for addresses and 13 for the sums.
#pragma once

#include "kernels/common/sampling.cuh"
#include "kernels/sorted/channels.cuh"
#include "kernels/sorted/corner_products.cuh"
#include "kernels/sorted/sorted.h"
#include "kernels/sorted/warps.cuh"

namespace msda::sorted {

template <ValueType kValueType, Loads kLoads, int kSlotLanes>
struct PointConfig {
  static constexpr ValueType kType = kValueType;
  static constexpr msda_dtype kDtype = dtype_of(kValueType);
  static constexpr bool kVectors = kLoads == Loads::vectors;
  static constexpr int kLanes = kSlotLanes;
  static constexpr int kSlots = kPointThreads / kLanes;
  static constexpr int kPoints = kLanes < kTogether ? kLanes : kTogether;  // located at once
  using Row = Channels<kType, kLoads>;
  // Corners of a point that are loaded before the first is multiplied.
  static constexpr int kCorners = Row::kNarrow ? 4 : 2;
  static_assert(kLanes <= kWarp && (kLanes & (kLanes - 1)) == 0);
  using Products = std::conditional_t<Row::kNarrow && kPoints == 4, MatrixProducts<PointConfig>,
                                      ScalarProducts<PointConfig>>;
  // Points whose corners are loaded before the first are multiplied.
  static constexpr int kInFlight = Products::kByLane ? 2 : kPoints;
};

// A row of the run, and where its tensors' elements begin.
struct PointGradRow {
  std::int64_t index;  // in the run
  std::int64_t b, q, m;
  bool is_there;  // else it is the last row once more, and nothing is stored

  __device__ PointGradRow(Params const& p, PointParams const& s, std::int64_t i) {
    std::int64_t const rows = s.queries * p.head_count;
    is_there = i < rows;
    index = is_there ? i : rows - 1;
    // B Q and the rows of a run fit 32 bits.
    auto const heads = static_cast<std::uint32_t>(p.head_count);
    auto const queries = static_cast<std::uint32_t>(p.query_count);
    auto const row = static_cast<std::uint32_t>(index);
    auto const query = static_cast<std::uint32_t>(s.first_query) + row / heads;
    m = row % heads;
    b = query / queries;
    q = query % queries;
  }
};

// A point as the lane that located it has it.
struct LocatedPoint {
  std::int32_t token;   // of the first corner, moved onto the map; 0 where there is none
  std::uint32_t steps;  // from it to the corner below << 1 | to the one beside it: of the map
  float fx, fy;
  float width, height;
  bool inside[4];  // corners
};

__device__ __forceinline__ LocatedPoint locate_point(Params const& p, PointParams const& s,
                                                     PointRow const& row, std::int64_t k) {
  LocatedPoint located{};
  if (k >= p.point_total) return located;
  std::int32_t const l = s.level_of_point[k];
  LevelParams const level = p.level(l);
  located.width = static_cast<float>(level.width);
  located.height = static_cast<float>(level.height);
  Point<float> const point = point_at<float>(p, row, level, l, k);
  if (!point.is_number) return located;
  Corners<float> const corners = corners_of(level, point);
  if (!corners.any_inside) return located;
  located.fx = corners.fx;
  located.fy = corners.fy;
#pragma unroll
  for (int i = 0; i < 4; ++i) located.inside[i] = corners.inside[i];
  bool const has_left = corners.inside[0] || corners.inside[2];
  bool const has_right = corners.inside[1] || corners.inside[3];
  bool const has_top = corners.inside[0] || corners.inside[1];
  bool const has_bottom = corners.inside[2] || corners.inside[3];
  located.token = static_cast<std::int32_t>(corners.first + (has_left ? 0 : 1) +
                                            (has_top ? 0 : level.row_tokens));
  auto const below = static_cast<std::uint32_t>(has_top && has_bottom ? level.row_tokens : 0);
  located.steps = below << 1 | (has_left && has_right ? 1u : 0u);
  return located;
}

// Loads the corners of point `j` of those that the lanes have located, and multiplies them.
template <class Config, class Products>
__device__ __forceinline__ void multiply_corners(Params const& p, std::int64_t value,
                                                 bool has_channels, LocatedPoint const& mine, int j,
                                                 Products& products) {
  using Row = typename Config::Row;
  std::int64_t const token = __shfl_sync(kAllLanes, mine.token, j, Config::kPoints);
  std::uint32_t const steps = __shfl_sync(kAllLanes, mine.steps, j, Config::kPoints);
  std::int64_t const stride = p.value_strides.row;
  std::int64_t const beside = (steps & 1) != 0 ? stride : 0;
  std::int64_t const below = static_cast<std::int64_t>(steps >> 1) * stride;
  std::int64_t const first = value + token * stride;
#pragma unroll
  for (int base = 0; base < 4; base += Config::kCorners) {
    Row rows[Config::kCorners];
#pragma unroll
    for (int i = 0; i < Config::kCorners; ++i) {
      int const corner = base + i;
      std::int64_t const at =
          first + ((corner & 1) != 0 ? beside : 0) + ((corner & 2) != 0 ? below : 0);
      rows[i] = has_channels ? Row::load(Config::kDtype, p.value, at) : Row::zeros();
    }
#pragma unroll
    for (int i = 0; i < Config::kCorners; ++i) products.multiply(j, base + i, rows[i]);
  }
}

struct PointGradient {
  float x, y, weight;  // the attention weight is part of x and y
};

__device__ __forceinline__ PointGradient point_gradient(LocatedPoint const& at, float weight,
                                                        float (&d)[4]) {
  bool const any = at.inside[0] || at.inside[1] || at.inside[2] || at.inside[3];
  if (!any) return {0.0f, 0.0f, 0.0f};
#pragma unroll
  for (int corner = 0; corner < 4; ++corner) {
    if (!at.inside[corner]) d[corner] = 0.0f;
  }
  float const left = 1.0f - at.fx;
  float const top = 1.0f - at.fy;
  float sample = 0.0f;
#pragma unroll
  for (int corner = 0; corner < 4; ++corner) {
    float const share = ((corner & 1) != 0 ? at.fx : left) * ((corner & 2) != 0 ? at.fy : top);
    if (at.inside[corner]) sample = fmaf(share, d[corner], sample);
  }
  return {weight * at.width * (top * (d[1] - d[0]) + at.fy * (d[3] - d[2])),
          weight * at.height * (left * (d[2] - d[0]) + at.fx * (d[3] - d[1])), sample};
}

__device__ __forceinline__ void store_gradient(Params const& p, PointParams const& s,
                                               std::int64_t row, std::int64_t k,
                                               PointGradient const& gradient) {
  if (s.raw != nullptr) {
    float* const to = s.raw + (row * p.point_total + k) * 3;
    to[0] = gradient.x;
    to[1] = gradient.y;
    to[2] = gradient.weight;
    return;
  }
  std::int64_t const at = (s.first_query * p.head_count + row) * p.point_total + k;
  if (p.grad_weight != nullptr) {
    store_element(p.weight_dtype, p.grad_weight, at, gradient.weight);
  }
  if (p.grad_coord != nullptr) {
    store_element(p.coord_dtype, p.grad_coord, 2 * at, gradient.x);
    store_element(p.coord_dtype, p.grad_coord, 2 * at + 1, gradient.y);
  }
}

// The points of one row, kPoints at a time.
template <class Config>
__device__ __forceinline__ void point_gradients_of_row(Params const& p, PointParams const& s,
                                                       PointGradRow const& row) {
  using Row = typename Config::Row;
  int const d = static_cast<int>(threadIdx.x % Config::kLanes) * kChannelsOfLane;
  bool const has_channels = d < p.head_dim;
  std::int64_t const value = row.b * p.value_strides.batch + row.m * p.value_strides.head + d;
  std::int64_t const grad = p.output_strides.at(row.b, row.q, row.m) + d;
  typename Config::Products products(has_channels ? Row::load(p.output_dtype, p.grad_output, grad)
                                                  : Row::zeros());
  PointRow const at(p, row.b, row.q, row.m);
  int const own = lane_of() % Config::kPoints;
  bool const stores =
      row.is_there && static_cast<int>(threadIdx.x % Config::kLanes) < Config::kPoints;
#pragma unroll 1
  for (std::int64_t first = 0; first < p.point_total; first += Config::kPoints) {
    std::int64_t const k = first + own;
    LocatedPoint const mine = locate_point(p, s, at, k);
#pragma unroll Config::kInFlight
    for (int j = 0; j < Config::kPoints; ++j) {
      multiply_corners<Config>(p, value, has_channels, mine, j, products);
    }
    float sums[4];
    products.sum(sums);
    if (!stores || k >= p.point_total) continue;
    float const weight = s.weights != nullptr
                             ? s.weights[row.index * p.point_total + k]
                             : load_narrow(p.weight_dtype, p.weight, at.weight + k);
    store_gradient(p, s, row.index, k, point_gradient(mine, weight, sums));
  }
}

// A block takes neighbouring rows: their points lie near each other, and meet in L1.
template <class Config>
static __global__ void __launch_bounds__(kPointThreads,
                                         Config::kVectors&& Config::Row::kNarrow ? 2 : 1)
    point_gradients(const __grid_constant__ Params p, const __grid_constant__ PointParams s) {
  ptx::launch_dependents();
  ptx::wait_for_previous_grid();
  std::int64_t const first = static_cast<std::int64_t>(blockIdx.x) * s.rows_of_block;
  std::int64_t const slot = threadIdx.x / Config::kLanes;
  for (std::int64_t i = 0; i < s.rows_of_block; i += Config::kSlots) {
    point_gradients_of_row<Config>(p, s, PointGradRow(p, s, first + i + slot));
  }
}

}  // namespace msda::sorted
