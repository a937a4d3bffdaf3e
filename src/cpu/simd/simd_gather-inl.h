// The gather itself: a head's channels of four corners a point, weighted and summed in registers.
// Included once a target by foreach_target.
#if defined(MSDA_SIMD_GATHER_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MSDA_SIMD_GATHER_INL_H_
#undef MSDA_SIMD_GATHER_INL_H_
#else
#define MSDA_SIMD_GATHER_INL_H_
#endif

#include "cpu/simd/simd_elements-inl.h"
#include "cpu/simd/simd_points-inl.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Where the sums of one row go.
struct Output {
  msda_dtype dtype;
  void* array;
  std::int64_t row;  // element of the row's first channel
  float scale;       // of 8-bit values, else 1
};

// The row that comes next: its lines are asked for while this row is summed.
struct Ahead {
  Corners const* corners;
  std::int64_t bytes;  // of a corner's row to ask for; 0: none

  template <typename T>
  HWY_INLINE void prefetch(const T* base, std::int64_t k) const {
    for (std::int64_t byte = 0; byte < bytes; byte += 64) {
      for (auto const& offset : corners->offset) {
        __builtin_prefetch(reinterpret_cast<const char*>(base + offset[k]) + byte);
      }
    }
  }
};

// Sums points [0, count) of `corners` over N vectors of channels that start at channel[0..N). Corners of
// the left and of the right column have sums of their own, so that additions overlap; the order is fixed.
template <int N, class D, typename T>
HWY_INLINE void sum_points(D d, const T* base, Corners const& corners, std::int64_t count,
                           const std::int64_t* channel, Ahead const& ahead, hn::Vec<D>* sum) {
  hn::Vec<D> left[N], right[N];
  for (int n = 0; n < N; ++n) {
    left[n] = hn::Zero(d);
    right[n] = hn::Zero(d);
  }
  for (std::int64_t k = 0; k < count; ++k) {
    const T* const p00 = base + corners.offset[0][k];
    const T* const p01 = base + corners.offset[1][k];
    const T* const p10 = base + corners.offset[2][k];
    const T* const p11 = base + corners.offset[3][k];
    auto const w00 = hn::Set(d, corners.weight[0][k]);
    auto const w01 = hn::Set(d, corners.weight[1][k]);
    auto const w10 = hn::Set(d, corners.weight[2][k]);
    auto const w11 = hn::Set(d, corners.weight[3][k]);
    ahead.prefetch(base, k);
    for (int n = 0; n < N; ++n) {
      left[n] = hn::MulAdd(load(d, p00 + channel[n]), w00, left[n]);
      right[n] = hn::MulAdd(load(d, p01 + channel[n]), w01, right[n]);
    }
    for (int n = 0; n < N; ++n) {
      left[n] = hn::MulAdd(load(d, p10 + channel[n]), w10, left[n]);
      right[n] = hn::MulAdd(load(d, p11 + channel[n]), w11, right[n]);
    }
  }
  for (int n = 0; n < N; ++n) sum[n] = hn::Add(left[n], right[n]);
}

// N vectors of a row's channels, from vector `first` on. corners_of(block) gives the corners of the points
// [block * kPointBlock, ...); with more than one block each is summed on its own, then added in turn.
template <int N, class D, typename T, typename CornersOf>
HWY_INLINE void gather_vectors(D d, const T* base, std::int64_t point_total, std::int64_t first,
                               std::int64_t head_dim, CornersOf corners_of, Ahead const& ahead,
                               Output const& output) {
  auto const lanes = static_cast<std::int64_t>(hn::Lanes(d));
  // The last vector overlaps the one before it instead of running over the end.
  std::int64_t channel[N];
  for (int n = 0; n < N; ++n) channel[n] = std::min((first + n) * lanes, head_dim - lanes);
  hn::Vec<D> sum[N];
  sum_points<N>(d, base, corners_of(0), std::min(point_total, kPointBlock), channel, ahead, sum);
  for (std::int64_t done = kPointBlock; done < point_total; done += kPointBlock) {
    hn::Vec<D> more[N];
    sum_points<N>(d, base, corners_of(done / kPointBlock), std::min(point_total - done, kPointBlock),
                  channel, Ahead{nullptr, 0}, more);
    for (int n = 0; n < N; ++n) sum[n] = hn::Add(sum[n], more[n]);
  }
  for (int n = 0; n < N; ++n) {
    store(d, hn::Mul(sum[n], hn::Set(d, output.scale)), output.dtype, output.array,
          output.row + channel[n]);
  }
}

// All channels of a row, as many vectors at a time as registers hold.
template <class D, typename T, typename CornersOf>
HWY_INLINE void gather_row(D d, const T* base, std::int64_t point_total, std::int64_t head_dim,
                           CornersOf corners_of, Ahead const& ahead, Output const& output) {
  auto const lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t const vectors = (head_dim + lanes - 1) / lanes;
  auto const gather = [&](auto width, std::int64_t first) HWY_ATTR {
    // The first vectors ask for the whole row.
    Ahead const wanted = first == 0 ? ahead : Ahead{nullptr, 0};
    gather_vectors<decltype(width)::value>(d, base, point_total, first, head_dim, corners_of, wanted,
                                           output);
  };
  std::int64_t first = 0;
  for (; first + 4 <= vectors; first += 4) gather(std::integral_constant<int, 4>(), first);
  for (; first + 2 <= vectors; first += 2) gather(std::integral_constant<int, 2>(), first);
  if (first < vectors) gather(std::integral_constant<int, 1>(), first);
}

}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
