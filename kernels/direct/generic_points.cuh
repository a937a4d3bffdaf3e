// Gradients of the points of any legal problem, with the same bits on every run: every sum has one
// warp and one order.
//
// Each lane locates a point of a row and leaves in shared memory where its corners' rows begin. Of
// several points at a time the warp, with lanes over channels, multiplies these rows with the row
// of grad_output; the products are summed so that each lane ends with those of its own point.
#pragma once

#include "kernels/direct/generic.cuh"

namespace msda::direct {

// The gradients by one point's pixel position and weight, the attention weight not yet applied to
// x and y.
template <typename Sum>
struct PointGrad {
  Sum x, y, weight;
  bool any_inside;  // else all are zero, whatever the attention weight
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
template <ValueType kType, typename Real>
__device__ auto point_grad(Params const& p, Row<Real> const& row, RowPoint const& at,
                           CornerRows* points) {
  using Sum = typename ValueTraits<kType>::Sum;
  Corners<Real> corners{};
  if (at.is_there) {
    Point<Real> const point = point_at<Real>(p, row.at, at.level, at.l, at.k);
    if (point.is_number) corners = corners_of(at.level, point);
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
  PointGrad<Sum> grad{0, 0, 0, corners.any_inside};
  if (!corners.any_inside) return grad;
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

// The gradient by the normalised coordinate that a pixel position comes from.
template <typename Sum>
__device__ void to_coord_grad(LevelParams const& level, Sum weight, PointGrad<Sum>& grad) {
  if (!grad.any_inside) return;
  grad.x *= weight * static_cast<Sum>(level.width);
  grad.y *= weight * static_cast<Sum>(level.height);
}

template <typename Sum>
__device__ void store_if_asked(msda_dtype dtype, void* array, std::int64_t index, Sum x) {
  if (array != nullptr) store_element(dtype, array, index, x);
}

// One head of one query, sampled input: the gradients of its points are independent.
template <ValueType kType, typename Real>
__device__ void sampled_point_grads(Params const& p, Row<Real> const& row, CornerRows* points) {
  using Sum = typename ValueTraits<kType>::Sum;
  std::int64_t const to_coord = p.grad_coord_strides.at(row.b, row.q, row.m);
  std::int64_t const to_weight = p.grad_weight_strides.at(row.b, row.q, row.m);
  for (std::int64_t first = 0; first < p.point_total; first += kWarp) {
    RowPoint const at(p, first + lane_index());
    PointGrad<Sum> grad = point_grad<kType>(p, row, at, points);
    if (!at.is_there) continue;
    store_if_asked(p.weight_dtype, p.grad_weight, to_weight + at.k, grad.weight);
    to_coord_grad(at.level, static_cast<Sum>(row.weight(p, at.k)), grad);
    store_if_asked(p.coord_dtype, p.grad_coord, to_coord + 2 * at.k, grad.x);
    store_if_asked(p.coord_dtype, p.grad_coord, to_coord + 2 * at.k + 1, grad.y);
  }
}

// The softmax's own derivative: w_k (g_k - sum_j w_j g_j). The sum first, then each.
template <ValueType kType, typename Real>
__device__ void logit_grads(Params const& p, Row<Real> const& row, CornerRows* points) {
  using Sum = typename ValueTraits<kType>::Sum;
  std::int64_t const to = p.grad_weight_strides.at(row.b, row.q, row.m);
  Sum mean = 0;
  PointGrad<Sum> grad{};
  for (int pass = 0; pass < 2; ++pass) {
    for (std::int64_t first = 0; first < p.point_total; first += kWarp) {
      RowPoint const at(p, first + lane_index());
      // One warpful is still there.
      if (pass == 0 || p.point_total > kWarp) grad = point_grad<kType>(p, row, at, points);
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
      auto const extent = load_element<Sum>(p.coord_dtype, p.reference, reference + 2 + i);
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
        store_element(p.coord_dtype, p.grad_reference, to, sum);
      }
      sum = 0;
    }
  }
};

// Neighbouring heads of one query, fused input; if the gradient of its reference points is wanted,
// all heads, since they add to it.
template <ValueType kType, typename Real>
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
      Row<Real> const row(b, q, m, of_points, warp_softmax<Real>(p, of_points));
      PointGrad<Sum> grad = point_grad<kType>(p, row, at, points);
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
template <ValueType kType, typename Real, bool kFused>
__global__ void __launch_bounds__(kThreads, sizeof(Real) == 4 && !kFused ? 2 : 1)
    backward_points(const __grid_constant__ Params p) {
  MSDA_SHARED(CornerRows, points_of_warps, [kWarpsPerBlock][kWarp]);
  ptx::wait_for_previous_grid();
  CornerRows* const points = points_of_warps[warp_of_block()];
  std::int64_t const heads = kFused && p.grad_reference != nullptr ? p.head_count : 1;
  std::int64_t const rows = p.batch * p.query_count * p.head_count;
  for (std::int64_t first = warp_index() * heads; first < rows; first += warp_count() * heads) {
    std::int64_t const query = quotient(first, p.head_count);
    std::int64_t const first_head = first - query * p.head_count;
    std::int64_t const b = quotient(query, p.query_count);
    std::int64_t const q = query - b * p.query_count;
    if constexpr (!kFused) {
      Row<Real> const row(b, q, first_head, PointRow(p, b, q, first_head), {});
      sampled_point_grads<kType>(p, row, points);
    } else {
      if (p.grad_coord != nullptr || p.grad_reference != nullptr) {
        fused_point_grads<kType, Real>(p, b, q, first_head, heads, points);
      }
      if (p.grad_weight == nullptr) continue;
      for (std::int64_t m = first_head; m < first_head + heads; ++m) {
        PointRow const of_points(p, b, q, m);
        Row<Real> const row(b, q, m, of_points, warp_softmax<Real>(p, of_points));
        logit_grads<kType>(p, row, points);
      }
    }
  }
}

}  // namespace msda::direct
