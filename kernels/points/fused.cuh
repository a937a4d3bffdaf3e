// Fused input's part of the points: the softmax of logits and its gradient, and the gradients of
// references.
#pragma once

#include "kernels/common/powers.cuh"
#include "kernels/common/ptx.cuh"
#include "kernels/points/locate.cuh"

namespace msda::points {

// ---- softmax of rows of logits in the kernels whose lanes have a row's points, and its gradient:
//
//   weight_k = exp(logit_k - shift) / sum      grad_logit_k = weight_k (g_k - sum_j weight_j g_j)
//
// where g_k is the gradient of weight k, and the shift is 0 or the largest logit
// (common/powers.cuh). A lane has every so many points of a row, adds up its own in their order,
// and lanes are joined in a tree: a row's sums have one order in every kernel.

// A lane remembers a power and a gradient of each of its points of a row, one of each group: at
// addresses of its own, or in registers (sorted/points.cuh).
struct PointsInMemory {
  static constexpr int kUnrolled = 1;
  float* powers;
  float* gradients;
  std::int32_t stride;  // from a group to the next
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

  // Finds the powers of a row of K points; logit(group) is -inf where the lane has none.
  template <class Logit>
  __device__ __forceinline__ void start(std::int32_t K, Logit logit) {
    start<1>(K, [&](int group) { return __float_as_uint(logit(group)); }, number_of);
  }
  // bits(group) loads what a logit is in memory, of which logit(group, bits) makes the number:
  // kInFlight loads are under way before the first is waited for.
  template <int kInFlight, class Bits, class Logit>
  __device__ __forceinline__ void start([[maybe_unused]] std::int32_t K, Bits bits, Logit logit) {
    float sum;
    if constexpr (Config::kPowersFirst) {
      sum = find_powers<kInFlight>(bits, logit, 0.0f);
      if (__any_sync(kAllLanes, sum_may_need_shift(sum, static_cast<float>(K)))) {
        float own = -INFINITY;
        for_logits<kInFlight>(bits, logit, [&](int, float x) { own = fmaxf(own, x); });
        sum = find_powers<kInFlight>(bits, logit, shift_of_row(own));
      }
    } else {
      float own = -INFINITY;
      for_logits<kInFlight>(bits, logit, [&](int group, float x) {
        points_.power(group) = x;
        own = fmaxf(own, x);
      });
      bool const may_need_shift = __any_sync(kAllLanes, largest_needs_shift(own));
      float const shift = may_need_shift ? shift_of_row(own) : 0.0f;
      auto const bits_of_logit = [&](int group) { return __float_as_uint(points_.power(group)); };
      sum = find_powers<kInFlight>(bits_of_logit, number_of, shift);
    }
    of_powers_ = reciprocal(sum);
    mean_ = 0.0f;
  }
  __device__ __forceinline__ float weight(int group) { return points_.power(group) * of_powers_; }
  // Adds the gradient of a weight.
  __device__ __forceinline__ void add(int group, float gradient) {
    points_.gradient(group) = gradient;
    mean_ = fmaf(weight(group), gradient, mean_);
  }
  // Adds the gradients of all weights anew, where other lanes have added some.
  __device__ __forceinline__ void add_again() {
    mean_ = 0.0f;
    for_groups([&](int group) { mean_ = fmaf(weight(group), points_.gradient(group), mean_); });
  }
  // Calls store(group, gradient of the logit) for the lane's points.
  template <class Store>
  __device__ __forceinline__ void finish(Store store) {
    Config::for_lanes_of_row(
        [&](int distance) { mean_ += __shfl_xor_sync(kAllLanes, mean_, distance); });
    for_groups([&](int group) { store(group, weight(group) * (points_.gradient(group) - mean_)); });
  }

 private:
  __device__ __forceinline__ static float number_of(int, std::uint32_t bits) {
    return __uint_as_float(bits);
  }
  // Finds the powers of logits less a shift; returns the sum of the row's.
  template <int kInFlight, class Bits, class Logit>
  __device__ __forceinline__ float find_powers(Bits bits, Logit logit, float shift) {
    float sum = 0.0f;
    for_logits<kInFlight>(bits, logit, [&](int group, float x) {
      float const power = power_of_e(x - shift);
      points_.power(group) = power;
      sum += power;
    });
    Config::for_lanes_of_row(
        [&](int distance) { sum += __shfl_xor_sync(kAllLanes, sum, distance); });
    return sum;
  }
  // Returns the shift of a row, of whose lane this is the largest logit. All lanes of the warp.
  __device__ __forceinline__ static float shift_of_row(float largest) {
    Config::for_lanes_of_row([&](int distance) {
      largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, distance));
    });
    return shift_by_largest(largest);
  }
  // Calls fn(group, logit) for the lane's points.
  template <int kInFlight, class Bits, class Logit, class Fn>
  __device__ __forceinline__ void for_logits(Bits bits, Logit logit, Fn fn) const {
    std::int32_t const groups = points_.groups();
#pragma unroll Points::kUnrolled
    for (int first = 0; first < groups; first += kInFlight) {
      std::uint32_t loaded[kInFlight];
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        loaded[i] = 0;
        if (first + i < groups) loaded[i] = bits(first + i);
      }
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) {
        if (first + i < groups) fn(first + i, logit(first + i, loaded[i]));
      }
    }
  }
  template <class Fn>
  __device__ __forceinline__ void for_groups(Fn fn) const {
#pragma unroll Points::kUnrolled
    for (int group = 0; group < points_.groups(); ++group) fn(group);
  }
  Points points_;
  float of_powers_ = 0.0f;  // their factor: 1 / sum
  float mean_ = 0.0f;       // of the gradients by their weights: of the lane's points, then of all
};

// The lanes that take a row of K logits: a power of two.
__device__ __forceinline__ int lanes_of_logits(std::int64_t points) {
  return points >= kWarp ? kWarp : 1 << (kWarp - __clz(static_cast<int>(points) - 1));
}

// ---- the gradients of reference points and boxes, to which all heads add: sums of what the points
// kernels have stored for each point, its gradient by the position in pixels. 8 bytes a point are
// read, of boxes the offset, too. Where grad_reference is not wanted nothing is stored and no
// kernel launched.

// kReferenceLanes lanes take a query, level after level: its points of all heads, in one order.
// kLevelsApart is for few queries: the lanes take one level of a query, each with 4 points in
// flight, since 4 levels one after the other are 4 waits.
template <bool kLevelsApart>
static __global__ void __launch_bounds__(kReferenceThreads, 4)
    sum_references(const __grid_constant__ Params p, const __grid_constant__ PointParams s) {
  constexpr int kInFlight = kLevelsApart ? 4 : 1;
  ptx::wait_for_previous_grid();
  std::int64_t const i =
      (static_cast<std::int64_t>(blockIdx.x) * kReferenceThreads + threadIdx.x) / kReferenceLanes;
  std::int64_t const groups = s.queries * (kLevelsApart ? p.level_count : 1);
  bool const is_there = i < groups;
  std::int64_t const group = is_there ? i : groups - 1;  // of the pass
  std::int64_t const query = kLevelsApart ? group / p.level_count : group;
  auto const first_level = static_cast<std::int32_t>(group - query * p.level_count);
  auto const of_all = static_cast<std::uint32_t>(s.first_query + query);
  std::uint32_t const b = of_all / static_cast<std::uint32_t>(p.query_count);
  std::uint32_t const q = of_all - b * static_cast<std::uint32_t>(p.query_count);
  auto const* const rows =
      reinterpret_cast<const float2*>(s.by_pixel) + query * p.head_count * p.point_total;
  bool const is_box = p.reference_dim == 4;
  std::int32_t const levels = kLevelsApart ? 1 : p.level_count;
  for (std::int32_t j = 0; j < levels; ++j) {
    std::int32_t const l = kLevelsApart ? first_level : j;
    LevelParams const level = p.level(l);
    float sums[4] = {};  // by x, y; by width, height
    std::int64_t m = 0;
    std::int64_t k = lane_of() % kReferenceLanes;
    while (true) {
      float2 by_pixel[kInFlight], offset[kInFlight];
      int count = 0;  // of points in flight
#pragma unroll
      for (int n = 0; n < kInFlight; ++n) {
        for (; m < p.head_count && k >= level.point_count; ++m) k -= level.point_count;
        if (m >= p.head_count) continue;
        std::int64_t const point = level.point_start + k;
        by_pixel[n] = rows[m * p.point_total + point];
        if (is_box) {
          offset[n] = load_pair(p.coord_dtype, p.coord, p.coord_strides.at(b, q, m) + 2 * point,
                                s.coord_pairs);
        }
        k += kReferenceLanes;
        ++count;
      }
#pragma unroll
      for (int n = 0; n < kInFlight; ++n) {
        if (n >= count) continue;
        sums[0] += by_pixel[n].x;
        sums[1] += by_pixel[n].y;
        // A zero gradient stays zero where an offset is no number.
        if (is_box && by_pixel[n].x != 0.0f) sums[2] += by_pixel[n].x * offset[n].x;
        if (is_box && by_pixel[n].y != 0.0f) sums[3] += by_pixel[n].y * offset[n].y;
      }
      if (count < kInFlight) break;
    }
#pragma unroll
    for (int n = 0; n < 4; ++n) sums[n] = sum_of_lanes(sums[n], kReferenceLanes);
    if (!is_there || lane_of() % kReferenceLanes != 0) continue;
    float const box_scale = 0.5f / static_cast<float>(level.point_count);
    std::int64_t const at = (of_all * std::int64_t{p.level_count} + l) * p.reference_dim;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
      if (n >= p.reference_dim) break;
      auto const size = static_cast<float>(n % 2 == 0 ? level.width : level.height);
      float const gradient = sums[n] * (n < 2 ? size : size * box_scale);
      store_narrow(p.reference_dtype, p.grad_reference, at + n, sums[n] == 0.0f ? 0.0f : gradient);
    }
  }
}

}  // namespace msda::points
