// Softmax of rows of logits in the kernels whose lanes have a row's points, and its gradient:
//
//   weight_k = exp(logit_k - largest) / sum      grad_logit_k = weight_k (g_k - sum_j weight_j g_j)
//
// where g_k is the gradient of weight k. A lane has every so many points of a row, adds up its own
// in their order, and lanes are joined in a tree: a row's sums have one order in every kernel.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/points/lanes.cuh"

namespace msda::points {

// 1 / x to a unit in the last place.
__device__ __forceinline__ float reciprocal(float x) {
  float const guess = ptx::reciprocal_approximate(x);
  return fmaf(guess, fmaf(-x, guess, 1.0f), guess);
}

__device__ __forceinline__ float largest_of_lanes(float x, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    x = fmaxf(x, __shfl_xor_sync(kAllLanes, x, distance));
  }
  return x;
}

// A lane remembers a power and a gradient of each of its points of a row, one of each group: in
// registers, or at addresses of its own.
template <int kGroups>
class PointsInRegisters {
 public:
  static constexpr int kUnrolled = kGroups;
  __device__ __forceinline__ static constexpr int groups() { return kGroups; }
  __device__ __forceinline__ float& power(int group) { return powers_[group]; }
  __device__ __forceinline__ float& gradient(int group) { return gradients_[group]; }

 private:
  float powers_[kGroups], gradients_[kGroups];
};
struct PointsInMemory {
  static constexpr int kUnrolled = 1;
  float* powers;
  float* gradients;
  std::int64_t stride;  // from a group to the next
  std::int32_t count;   // groups in which the lane has a point

  __device__ __forceinline__ std::int32_t groups() const { return count; }
  __device__ __forceinline__ float& power(int group) const { return powers[group * stride]; }
  __device__ __forceinline__ float& gradient(int group) const { return gradients[group * stride]; }
};

// The softmax of a row. All lanes of the warp call start() and finish(), and weight() and add() for
// the groups in which they have a point.
template <class Config, class Points>
class RowSoftmax {
 public:
  __device__ __forceinline__ explicit RowSoftmax(Points const& points) : points_(points) {}

  // logit(group) is -inf where the lane has no point.
  template <class Logit>
  __device__ __forceinline__ void start(Logit logit) {
    float largest = -INFINITY;
    for_groups([&](int group) {
      float const x = logit(group);
      points_.power(group) = x;
      largest = fmaxf(largest, x);
    });
    Config::for_lanes_of_row([&](int distance) {
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, distance));
    });
    float sum = 0.0f;
    for_groups([&](int group) {
      float const power = expf(points_.power(group) - largest);
      points_.power(group) = power;
      sum += power;
    });
    Config::for_lanes_of_row(
        [&](int distance) { sum += __shfl_xor_sync(kAllLanes, sum, distance); });
    of_powers_ = reciprocal(sum);
    mean_ = 0.0f;
  }
  __device__ __forceinline__ float weight(int group) { return points_.power(group) * of_powers_; }
  // Adds the gradient of a weight.
  __device__ __forceinline__ void add(int group, float gradient) {
    points_.gradient(group) = gradient;
    mean_ = fmaf(weight(group), gradient, mean_);
  }
  // Calls store(group, gradient of the logit) for the lane's points.
  template <class Store>
  __device__ __forceinline__ void finish(Store store) {
    Config::for_lanes_of_row(
        [&](int distance) { mean_ += __shfl_xor_sync(kAllLanes, mean_, distance); });
    for_groups([&](int group) { store(group, weight(group) * (points_.gradient(group) - mean_)); });
  }

 private:
  template <class Fn>
  __device__ __forceinline__ void for_groups(Fn fn) const {
#pragma unroll Points::kUnrolled
    for (int group = 0; group < points_.groups(); ++group) fn(group);
  }
  Points points_;
  float of_powers_ = 0.0f;  // their factor: 1 / sum
  float mean_ = 0.0f;       // of the gradients by their weights: of the lane's points, then of all
};

}  // namespace msda::points
