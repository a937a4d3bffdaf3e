// Two kernels that fused input takes besides: weights by softmax before the points, whose slots may
// divide a row among them, and the gradients of logits behind them.
//
// softmax_rows reads a logit two times and stores a weight of 4 bytes a point; logit_gradients
// reads the weight and its gradient two times.
#pragma once

#include "kernels/atomic/atomic.h"
#include "kernels/common/ptx.cuh"
#include "kernels/common/sampling.cuh"
#include "kernels/points/softmax.cuh"

namespace msda::atomic {

using points::kAllLanes;
using points::sum_of_lanes;

// A row that kRowLanes lanes take, in the order [query][head].
struct LogitRow {
  std::int64_t index;
  bool is_there;  // else it is the last row once more, and nothing is stored
  int lane;

  __device__ __forceinline__ explicit LogitRow(LogitParams const& s)
      : lane(points::lane_of() % kRowLanes) {
    std::int64_t const i =
        (static_cast<std::int64_t>(blockIdx.x) * kRowThreads + threadIdx.x) / kRowLanes;
    is_there = i < s.rows;
    index = is_there ? i : s.rows - 1;
  }
};

static __global__ void __launch_bounds__(kRowThreads, 4)
    softmax_rows(const __grid_constant__ Params p, const __grid_constant__ LogitParams s) {
  ptx::wait_for_previous_grid();
  LogitRow const row(s);
  std::int64_t const query = row.index / p.head_count;
  std::int64_t const b = query / p.query_count;
  std::int64_t const logits =
      p.weight_strides.at(b, query - b * p.query_count, row.index - query * p.head_count);
  float largest = -INFINITY;
  for (std::int64_t k = row.lane; k < p.point_total; k += kRowLanes) {
    largest = fmaxf(largest, load_narrow(p.weight_dtype, p.weight, logits + k));
  }
  largest = points::largest_of_lanes(largest, kRowLanes);
  float sum = 0.0f;
  for (std::int64_t k = row.lane; k < p.point_total; k += kRowLanes) {
    sum += expf(load_narrow(p.weight_dtype, p.weight, logits + k) - largest);
  }
  float const of_powers = points::reciprocal(sum_of_lanes(sum, kRowLanes));
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
  LogitRow const row(s);
  std::int64_t const first = row.index * p.point_total;
  const float* const weights = s.weights + first;
  const float* const gradients = s.gradients + first;
  float mean = 0.0f;
  for (std::int64_t k = row.lane; k < p.point_total; k += kRowLanes) {
    mean = fmaf(weights[k], gradients[k], mean);
  }
  mean = sum_of_lanes(mean, kRowLanes);
  if (!row.is_there) return;
  for (std::int64_t k = row.lane; k < p.point_total; k += kRowLanes) {
    store_narrow(p.weight_dtype, p.grad_weight, first + k, weights[k] * (gradients[k] - mean));
  }
}

}  // namespace msda::atomic
