// Gradients of the points of any legal problem, with the same bits on every run: every sum has one
// warp and one order.
#pragma once

#include "kernels/direct/generic.cuh"

namespace msda::direct {

// ---- gradients of the points

// By one point's pixel position and weight, the attention weight not yet applied to x and y.
template <typename Sum>
struct PointGrad {
  Sum x, y, weight;
  bool any_inside;  // else all are zero, whatever the attention weight
};

// The lanes of a warp share the channels; all of them get the result.
template <ValueType kType, typename Real>
__device__ auto point_grad(Params const& p, Row<Real> const& row, LevelParams const& level,
                           Point<Real> const& point) {
  using Sum = typename ValueTraits<kType>::Sum;
  PointGrad<Sum> grad{0, 0, 0, false};
  if (!point.is_number) return grad;
  Corners<Real> const corners = corners_of(level, point);
  if (!corners.any_inside) return grad;
  auto const* const value = static_cast<const typename ValueTraits<kType>::Element*>(p.value) +
                            row.b * p.value_strides.batch + row.m * p.value_strides.head;
  std::int64_t const output = p.output_strides.at(row.b, row.q, row.m);
  auto const fx = static_cast<Sum>(corners.fx);
  auto const fy = static_cast<Sum>(corners.fy);
  Sum const one = 1;
  for (std::int64_t d = lane_index(); d < p.head_dim; d += kWarp) {
    auto const g = load_element<Sum>(p.output_dtype, p.grad_output, output + d);
    Sum v[4];
    Sum sample = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      v[i] = 0;
      if (!corners.inside[i]) continue;
      v[i] = convert<Sum>(value[corners.token(i) * p.value_strides.row + d]);
      sample += static_cast<Sum>(corners.weight(i)) * v[i];
    }
    grad.x += g * ((one - fy) * (v[1] - v[0]) + fy * (v[3] - v[2]));
    grad.y += g * ((one - fx) * (v[2] - v[0]) + fx * (v[3] - v[1]));
    grad.weight += g * sample;
  }
  Sum const scale = kIsScaled<kType> ? p.scale_of(row.m) : one;
  return PointGrad<Sum>{warp_sum(grad.x) * scale, warp_sum(grad.y) * scale,
                        warp_sum(grad.weight) * scale, true};
}

// By the normalised coordinate that a pixel position comes from.
template <typename Sum>
__device__ void to_coord_grad(LevelParams const& level, Sum weight, PointGrad<Sum>& grad) {
  if (!grad.any_inside) return;
  grad.x *= weight * static_cast<Sum>(level.width);
  grad.y *= weight * static_cast<Sum>(level.height);
}

template <typename Sum>
__device__ void store_if_asked(msda_dtype dtype, void* array, std::int64_t index, Sum x) {
  if (array != nullptr && lane_index() == 0) store_element(dtype, array, index, x);
}

// One head of one query, sampled input: the gradients of its points are independent.
template <ValueType kType, typename Real>
__device__ void sampled_point_grads(Params const& p, Row<Real> const& row, std::int64_t packed) {
  using Sum = typename ValueTraits<kType>::Sum;
  for (std::int32_t l = 0; l < p.level_count; ++l) {
    LevelParams const level = p.level(l);
    for (std::int64_t k = level.point_start; k < level.point_start + level.point_count; ++k) {
      PointGrad<Sum> grad =
          point_grad<kType>(p, row, level, point_at<Real>(p, row.at, level, l, k));
      store_if_asked(p.weight_dtype, p.grad_weight, packed + k, grad.weight);
      to_coord_grad(level, static_cast<Sum>(row.weight(p, k)), grad);
      store_if_asked(p.coord_dtype, p.grad_coord, 2 * (packed + k), grad.x);
      store_if_asked(p.coord_dtype, p.grad_coord, 2 * (packed + k) + 1, grad.y);
    }
  }
}

// The softmax's own derivative: w_k (g_k - sum_j w_j g_j). The sum first, then each.
template <ValueType kType, typename Real>
__device__ void logit_grads(Params const& p, Row<Real> const& row, std::int64_t packed) {
  using Sum = typename ValueTraits<kType>::Sum;
  Sum mean = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (std::int32_t l = 0; l < p.level_count; ++l) {
      LevelParams const level = p.level(l);
      for (std::int64_t k = level.point_start; k < level.point_start + level.point_count; ++k) {
        PointGrad<Sum> const grad =
            point_grad<kType>(p, row, level, point_at<Real>(p, row.at, level, l, k));
        auto const weight = static_cast<Sum>(row.weight(p, k));
        if (pass == 0) {
          mean += weight * grad.weight;
        } else {
          store_if_asked(p.weight_dtype, p.grad_weight, packed + k, weight * (grad.weight - mean));
        }
      }
    }
  }
}

// What one point adds to the gradients of its reference, and by its offset.
template <typename Sum>
struct FusedGrad {
  Sum reference[4];
  Sum offset[2];
};
template <typename Sum, typename Real>
__device__ FusedGrad<Sum> fused_grad(Params const& p, Row<Real> const& row,
                                     LevelParams const& level, std::int32_t l, std::int64_t k,
                                     PointGrad<Sum> const& grad) {
  Sum const by_coord[2] = {grad.x, grad.y};
  Sum const size[2] = {static_cast<Sum>(level.width), static_cast<Sum>(level.height)};
  FusedGrad<Sum> result{};
  std::int64_t const reference = row.at.reference + static_cast<std::int64_t>(l) * p.reference_dim;
  Sum const scale = static_cast<Sum>(0.5) / static_cast<Sum>(level.point_count);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    // A zero gradient stays zero where the map is empty or a box is no number.
    if (by_coord[i] == 0) continue;
    result.reference[i] = by_coord[i];
    if (p.reference_dim == 2) {
      result.offset[i] = by_coord[i] / size[i];
    } else {
      auto const extent = load_element<Sum>(p.coord_dtype, p.reference, reference + 2 + i);
      auto const offset = load_element<Sum>(p.coord_dtype, p.coord, row.at.coord + 2 * k + i);
      result.reference[2 + i] = by_coord[i] * offset * scale;
      result.offset[i] = by_coord[i] * (extent * scale);
    }
  }
  return result;
}

// One query, fused input: all its heads add to the gradient of its reference points.
template <ValueType kType, typename Real>
__device__ void fused_point_grads(Params const& p, std::int64_t b, std::int64_t q) {
  using Sum = typename ValueTraits<kType>::Sum;
  std::int64_t const M = p.head_count;
  std::int64_t const first = (b * p.query_count + q) * M;
  for (std::int32_t l = 0; l < p.level_count; ++l) {
    LevelParams const level = p.level(l);
    Sum by_reference[4] = {};
    for (std::int64_t m = 0; m < M; ++m) {
      Row<Real> const row(p, b, q, m);
      std::int64_t const packed = (first + m) * p.point_total;
      for (std::int64_t k = level.point_start; k < level.point_start + level.point_count; ++k) {
        PointGrad<Sum> grad =
            point_grad<kType>(p, row, level, point_at<Real>(p, row.at, level, l, k));
        to_coord_grad(level, static_cast<Sum>(row.weight(p, k)), grad);
        FusedGrad<Sum> const by = fused_grad<Sum>(p, row, level, l, k, grad);
#pragma unroll
        for (int i = 0; i < 4; ++i) by_reference[i] += by.reference[i];
        store_if_asked(p.coord_dtype, p.grad_coord, 2 * (packed + k), by.offset[0]);
        store_if_asked(p.coord_dtype, p.grad_coord, 2 * (packed + k) + 1, by.offset[1]);
      }
    }
    std::int64_t const at = ((b * p.query_count + q) * p.level_count + l) * p.reference_dim;
    for (int i = 0; i < p.reference_dim; ++i) {
      store_if_asked(p.coord_dtype, p.grad_reference, at + i, by_reference[i]);
    }
  }
}

// A warp a query.
template <ValueType kType, typename Real>
__global__ void __launch_bounds__(kThreads, 1) backward_points(const __grid_constant__ Params p) {
  ptx::wait_for_previous_grid();
  std::int64_t const queries = p.batch * p.query_count;
  for (std::int64_t i = warp_index(); i < queries; i += warp_count()) {
    std::int64_t const b = i / p.query_count;
    std::int64_t const q = i % p.query_count;
    if (p.reference_dim != 0 && (p.grad_coord != nullptr || p.grad_reference != nullptr)) {
      fused_point_grads<kType, Real>(p, b, q);
    }
    for (std::int64_t m = 0; m < p.head_count; ++m) {
      std::int64_t const packed = (i * p.head_count + m) * p.point_total;
      Row<Real> const row(p, b, q, m);
      if (p.reference_dim == 0) {
        sampled_point_grads<kType>(p, row, packed);
      } else if (p.grad_weight != nullptr) {
        logit_grads<kType>(p, row, packed);
      }
    }
  }
}

}  // namespace msda::direct
