// Two kernels that fused input takes besides: weights by softmax before the others, and behind them
// the gradients of logits, offsets and reference points, from those of weights and coordinates.
//
// softmax_rows reads a logit two times and stores a weight of 4 bytes a point; finish_fused reads
// 16 bytes a point, its raw gradients and its weight, and stores what the caller has asked for.
#pragma once

#include "kernels/common/ptx_cluster.cuh"
#include "kernels/common/sampling.cuh"
#include "kernels/points/lanes.cuh"

namespace msda::points {

__device__ __forceinline__ float largest_of_lanes(float x, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, distance));
  }
  return x;
}

// kSoftmaxLanes lanes a row.
static __global__ void __launch_bounds__(kFusedThreads, 4)
    softmax_rows(const __grid_constant__ Params p, const __grid_constant__ SoftmaxParams s) {
  ptx::wait_for_previous_grid();
  std::int64_t const i =
      (static_cast<std::int64_t>(blockIdx.x) * kFusedThreads + threadIdx.x) / kSoftmaxLanes;
  int const lane = lane_of() % kSoftmaxLanes;
  bool const is_there = i < s.rows;
  std::int64_t const row = is_there ? i : s.rows - 1;
  std::int64_t const M = p.head_count;
  std::int64_t const Q = p.query_count;
  std::int64_t const outer = s.first + row / (s.by_head ? Q : M);
  std::int64_t const b = outer / (s.by_head ? M : Q);
  std::int64_t const q = s.by_head ? row % Q : outer % Q;
  std::int64_t const m = s.by_head ? outer % M : row % M;
  std::int64_t const logits = p.weight_strides.at(b, q, m);
  float largest = -INFINITY;
  for (std::int64_t k = lane; k < p.point_total; k += kSoftmaxLanes) {
    largest = fmaxf(largest, load_narrow(p.weight_dtype, p.weight, logits + k));
  }
  largest = largest_of_lanes(largest, kSoftmaxLanes);
  float sum = 0.0f;
  for (std::int64_t k = lane; k < p.point_total; k += kSoftmaxLanes) {
    sum += expf(load_narrow(p.weight_dtype, p.weight, logits + k) - largest);
  }
  sum = sum_of_lanes(sum, kSoftmaxLanes);
  if (!is_there) return;
  for (std::int64_t k = lane; k < p.point_total; k += kSoftmaxLanes) {
    s.weights[row * p.point_total + k] =
        expf(load_narrow(p.weight_dtype, p.weight, logits + k) - largest) / sum;
  }
}

// A query of a warp: the raw gradients and weights of all its heads' points.
struct FusedQuery {
  std::int64_t index;  // among all B Q
  std::int64_t b, q;
  const float* raw;      // [M][K][3]
  const float* weights;  // [M][K]

  __device__ FusedQuery(Params const& p, PointParams const& s, std::int64_t i)
      : index(s.first_query + i), b(index / p.query_count), q(index % p.query_count) {
    std::int64_t const points = i * p.head_count * p.point_total;
    raw = s.raw + 3 * points;
    weights = s.weights + points;
  }
  // The element of the packed gradients where its points begin.
  __device__ std::int64_t first_point(Params const& p) const {
    return index * p.head_count * p.point_total;
  }
};

// Stores the softmax's own derivative: w_k (g_k - sum_j w_j g_j).
__device__ __forceinline__ void store_logit_gradients(Params const& p, FusedQuery const& query) {
  if (p.grad_weight == nullptr) return;
  std::int64_t const K = p.point_total;
  for (std::int64_t m = 0; m < p.head_count; ++m) {
    const float* const weights = query.weights + m * K;
    const float* const raw = query.raw + m * K * 3;
    float mean = 0.0f;
    for (std::int64_t k = lane_of(); k < K; k += kWarp) mean += weights[k] * raw[3 * k + 2];
    mean = sum_of_lanes(mean, kWarp);
    for (std::int64_t k = lane_of(); k < K; k += kWarp) {
      store_element(p.weight_dtype, p.grad_weight, query.first_point(p) + m * K + k,
                    weights[k] * (raw[3 * k + 2] - mean));
    }
  }
}

// The terms that point k of head m has of the gradients of its reference and of its offset.
struct FusedTerms {
  float reference[4];
  float offset[2];
};
__device__ __forceinline__ FusedTerms fused_terms(Params const& p, FusedQuery const& query,
                                                  std::int32_t l, std::int64_t m, std::int64_t k) {
  LevelParams const level = p.level(l);
  const float* const raw = query.raw + (m * p.point_total + k) * 3;
  float const size[2] = {static_cast<float>(level.width), static_cast<float>(level.height)};
  float const scale = 0.5f / static_cast<float>(level.point_count);
  PointRow const row(p, query.b, query.q, m);
  std::int64_t const reference = row.reference + static_cast<std::int64_t>(l) * p.reference_dim;
  FusedTerms terms{};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    // A zero gradient stays zero where the map is empty or a box is no number.
    if (raw[i] == 0.0f) continue;
    terms.reference[i] = raw[i];
    if (p.reference_dim == 2) {
      terms.offset[i] = raw[i] / size[i];
    } else {
      float const extent = load_narrow(p.coord_dtype, p.reference, reference + 2 + i);
      float const offset = load_narrow(p.coord_dtype, p.coord, row.coord + 2 * k + i);
      terms.reference[2 + i] = raw[i] * offset * scale;
      terms.offset[i] = raw[i] * (extent * scale);
    }
  }
  return terms;
}

// Stores the gradients of offsets, and of the query's reference points, to which all heads add.
__device__ __forceinline__ void store_coord_gradients(Params const& p, FusedQuery const& query) {
  if (p.grad_coord == nullptr && p.grad_reference == nullptr) return;
  for (std::int32_t l = 0; l < p.level_count; ++l) {
    LevelParams const level = p.level(l);
    float by_reference[4] = {};
    std::int64_t const points = p.head_count * level.point_count;
    for (std::int64_t i = lane_of(); i < points; i += kWarp) {
      std::int64_t const m = i / level.point_count;
      std::int64_t const k = level.point_start + i % level.point_count;
      FusedTerms const terms = fused_terms(p, query, l, m, k);
#pragma unroll
      for (int j = 0; j < 4; ++j) by_reference[j] += terms.reference[j];
      if (p.grad_coord == nullptr) continue;
      std::int64_t const at = 2 * (query.first_point(p) + m * p.point_total + k);
      store_element(p.coord_dtype, p.grad_coord, at, terms.offset[0]);
      store_element(p.coord_dtype, p.grad_coord, at + 1, terms.offset[1]);
    }
    if (p.grad_reference == nullptr) continue;
    std::int64_t const at = (query.index * p.level_count + l) * p.reference_dim;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float const sum = sum_of_lanes(by_reference[j], kWarp);
      if (lane_of() == 0 && j < p.reference_dim) {
        store_element(p.coord_dtype, p.grad_reference, at + j, sum);
      }
    }
  }
}

// A warp takes a query.
static __global__ void __launch_bounds__(kFusedThreads, 2)
    finish_fused(const __grid_constant__ Params p, const __grid_constant__ PointParams s) {
  ptx::wait_for_previous_grid();
  std::int64_t const i =
      static_cast<std::int64_t>(blockIdx.x) * (kFusedThreads / kWarp) + warp_of();
  if (i >= s.queries) return;
  FusedQuery const query(p, s, i);
  store_logit_gradients(p, query);
  store_coord_gradients(p, query);
}

}  // namespace msda::points
