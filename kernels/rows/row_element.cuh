// One channel of one row, by the formula of include/msda.h: for kernels that take any problem, and
// for sums of the fast kernels that have to be formed anew.
#pragma once

#include "kernels/common/sampling.cuh"

namespace msda::rows {

// The points of one (batch, query, head), with their attention weights.
template <typename Real>
struct Row {
  std::int64_t b, q, m;
  PointRow at;
  Softmax<Real> softmax;

  __device__ Row(Params const& p, std::int64_t batch, std::int64_t query, std::int64_t head)
      : b(batch), q(query), m(head), at(p, batch, query, head) {
    if (p.reference_dim != 0) softmax = softmax_of<Real>(p, at);
  }
  __device__ Row(std::int64_t batch, std::int64_t query, std::int64_t head, PointRow const& row,
                 Softmax<Real> const& of_logits)
      : b(batch), q(query), m(head), at(row), softmax(of_logits) {}
  __device__ Real weight(Params const& p, std::int64_t k) const {
    auto const w = load_element<Real>(p.weight_dtype, p.weight, at.weight + k);
    return p.reference_dim != 0 ? softmax.weight(w) : w;
  }
};

// One channel of one row.
template <ValueType kType, bool kNearest = false, typename Real>
__device__ auto forward_element(Params const& p, Row<Real> const& row, std::int64_t d) {
  using Sum = typename ValueTraits<kType>::Sum;
  auto const* const value = static_cast<const typename ValueTraits<kType>::Element*>(p.value) +
                            row.b * p.value_strides.batch + row.m * p.value_strides.head + d;
  Sum sum = 0;
  for (std::int32_t l = 0; l < p.level_count; ++l) {
    LevelParams const level = p.level(l);
    for (std::int64_t k = level.point_start; k < level.point_start + level.point_count; ++k) {
      auto const point = place_of<Real, kNearest>(p, row.at, level, l, k);
      if (!point.is_number) continue;
      Corners<Real> const corners = corners_of<Real>(level, point);
      // Distances, so that there is one product a point and not one a corner.
      auto const* const first = value + corners.first * p.value_strides.row;
      std::int64_t const down = level.row_tokens * p.value_strides.row;
      Sum sample = 0;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        // Outside corners are zero, not zero times what lies there.
        if (!corners.inside[i]) continue;
        sample += static_cast<Sum>(corners.weight(i)) *
                  convert<Sum>(first[(i & 1) * p.value_strides.row + (i >> 1) * down]);
      }
      sum += static_cast<Sum>(row.weight(p, k)) * sample;
    }
  }
  return kIsScaled<kType> ? sum * p.scale_of(row.m) : sum;
}

// Stores anew those channels of a row of sampled input, from channel `first` on, whose bits in
// `channels` are set: sums over corners that are not finite, if a weight of the row is infinite.
template <ValueType kType>
__device__ void store_infinite(Params const& p, std::int64_t b, std::int64_t q, std::int64_t m,
                               std::int64_t first, unsigned channels) {
  if (channels == 0) return;
  Row<float> const row(p, b, q, m);
  bool any_infinite = false;
  for (std::int64_t k = 0; k < p.point_total; ++k) {
    any_infinite = any_infinite || is_infinite(row.weight(p, k));
  }
  if (!any_infinite) return;
  std::int64_t const output = p.output_strides.at(b, q, m);
#pragma unroll 1
  for (std::int64_t d = first; channels != 0; ++d, channels >>= 1) {
    if ((channels & 1) == 0) continue;
    store_element(p.output_dtype, p.output, output + d, forward_element<kType>(p, row, d));
  }
}

// A bit for each that is not finite.
template <int kCount>
__device__ __forceinline__ unsigned not_finite(float const (&numbers)[kCount]) {
  static_assert(kCount <= 32);
  unsigned bits = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) bits |= fabsf(numbers[i]) < INFINITY ? 0u : 1u << i;
  return bits;
}

}  // namespace msda::rows
