// Sums of a point: it adds to the gradients of its corners' values, and these values give its own
// gradients. Included once a target by foreach_target.
#if defined(MSDA_SIMD_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MSDA_SIMD_SUMS_INL_H_
#undef MSDA_SIMD_SUMS_INL_H_
#else
#define MSDA_SIMD_SUMS_INL_H_
#endif

#include "core/dtype.h"
#include "cpu/simd/simd_backward.h"
#include "cpu/simd/simd_elements-inl.h"

#include <hwy/highway.h>

#include <cstdint>

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {

using V = hn::Vec<Floats>;

// Corners are in the order (y0, x0), (y0, x0 + 1), (y0 + 1, x0), (y0 + 1, x0 + 1).

// Attention weights times bilinear ones; fx and fy are the fractions of x and y.
HWY_INLINE void find_corner_weights(V fx, V fy, V weight, V (&to)[4]) {
  auto const one = hn::Set(Floats(), 1.0f);
  auto const gx = hn::Sub(one, fx), gy = hn::Sub(one, fy);
  auto const upper = hn::Mul(weight, gy), lower = hn::Mul(weight, fy);
  to[0] = hn::Mul(upper, gx);
  to[1] = hn::Mul(upper, fx);
  to[2] = hn::Mul(lower, gx);
  to[3] = hn::Mul(lower, fx);
}

// Rows of grad_output of one head, or of heads from it on: the caller's, or the copy in float32.
class GradRows {
 public:
  // `buffer` [padded_dim] has the channels of a row that cannot be read as it is.
  HWY_INLINE GradRows(HeadSource const& source, Windows const& windows, HeadScratch const& scratch,
                      float* buffer)
      : buffer_(buffer), dim_(source.problem.head_dim) {
    Problem const& problem = source.problem;
    bool const has_copy = scratch.grad_output != nullptr;
    if (!has_copy) dtype_ = problem.output_dtype;
    is_read_ = has_copy || (dtype_ == MSDA_DTYPE_F32 && dim_ == windows.padded_dim);
    std::int64_t const bytes = dtype_bytes(dtype_);
    row_bytes_ = bytes * (has_copy ? windows.padded_dim : problem.output.row);
    head_bytes_ =
        bytes * (has_copy ? problem.query_count * windows.padded_dim : problem.output.head);
    first_ =
        has_copy ? reinterpret_cast<std::uintptr_t>(scratch.grad_output) : grad_output_of(source);
  }

  // The caller's row of query 0.
  static std::uintptr_t grad_output_of(HeadSource const& source) {
    return reinterpret_cast<std::uintptr_t>(source.call[Tensor::kGradOutput]) +
           static_cast<std::uintptr_t>(source.output * dtype_bytes(source.problem.output_dtype));
  }

  bool is_read() const { return is_read_; }  // as it is
  std::int64_t row_bytes() const { return row_bytes_; }
  HWY_INLINE std::uintptr_t address(std::int64_t head, std::int64_t query) const {
    return first_ + static_cast<std::uintptr_t>(head * head_bytes_ + query * row_bytes_);
  }
  HWY_INLINE void prefetch(std::uintptr_t address) const {
    prefetch_lines(address, dim_ * dtype_bytes(dtype_));
  }
  HWY_INLINE const float* channels(std::uintptr_t address) const {
    if (HWY_LIKELY(is_read_)) return reinterpret_cast<const float*>(address);
    to_floats(dtype_, address, dim_, buffer_);
    return buffer_;
  }

 private:
  float* buffer_;
  std::int64_t dim_;
  msda_dtype dtype_ = MSDA_DTYPE_F32;
  bool is_read_;
  std::int64_t row_bytes_, head_bytes_;
  std::uintptr_t first_;
};

// Calls fn(place of its ends, first record, first query) for each chunk of a head.
template <class Fn>
HWY_INLINE void each_chunk(Problem const& problem, Windows const& windows, Fn fn) {
  std::int64_t const K = problem.point_total, bins = windows.window_count + 1;
  std::int64_t ends = 0;
  for (std::int64_t row = 0; row < problem.query_count; row += windows.rows_of_chunk) {
    for (std::int64_t part = 0; part < windows.chunks_of_row; ++part, ends += bins) {
      fn(ends, row * K + part * kChunkPoints, row);
    }
  }
}

// As many records of one window as a vector has lanes, or fewer at its end, a lane each.
struct Batch {
  std::int64_t count = 0;
  HWY_ALIGN float x[kLanes];  // fractions
  HWY_ALIGN float y[kLanes];
  HWY_ALIGN float weight[kLanes];
  HWY_ALIGN float place[kLanes];  // its bits
  HWY_ALIGN float corner_weight[4][kLanes];
  HWY_ALIGN std::int32_t column[kLanes];  // of pixel (y0, x0)
  HWY_ALIGN std::int32_t row[kLanes];
  HWY_ALIGN std::int32_t query[kLanes];  // counted from the first one of the record's chunk

  // Reads kLanes records of points of which `per_row` = 1 / K are a query's.
  HWY_INLINE void read(const Record* records, float per_row) {
    const Floats d;
    const hn::RebindToSigned<Floats> di;
    V px, py, w, bits;
    hn::LoadInterleaved4(d, reinterpret_cast<const float*>(records), px, py, w, bits);
    auto const floor_x = hn::Floor(px), floor_y = hn::Floor(py);
    auto const fx = hn::Sub(px, floor_x), fy = hn::Sub(py, floor_y);
    V corners[4];
    find_corner_weights(fx, fy, w, corners);
    for (int c = 0; c < 4; ++c) hn::Store(corners[c], d, corner_weight[c]);
    hn::Store(fx, d, x);
    hn::Store(fy, d, y);
    hn::Store(w, d, weight);
    hn::Store(bits, d, place);
    hn::Store(hn::ConvertTo(di, floor_x), di, column);
    hn::Store(hn::ConvertTo(di, floor_y), di, row);
    // Exact: places are below 2^12, and half a point is far more than the error of the quotient.
    auto const number = hn::ConvertTo(d, hn::BitCast(di, bits));
    auto const quotient = hn::Mul(hn::Add(number, hn::Set(d, 0.5f)), hn::Set(d, per_row));
    hn::Store(hn::ConvertTo(di, quotient), di, query);
  }
};

// Adds the blocks of four lanes of a vector.
template <class D>
HWY_INLINE void store_sum_of_blocks(D d, hn::Vec<D> v, float* to) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    hn::StoreU(v, d, to);
  } else {
    const hn::Half<D> half;
    store_sum_of_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)), to);
  }
}

// The sums of the lanes of four vectors, one behind the other.
HWY_INLINE void store_sums(V const (&v)[4], float* to) {
  const Floats d;
  const hn::Repartition<double, Floats> pairs;
  auto const ab = hn::Add(hn::InterleaveLower(d, v[0], v[1]), hn::InterleaveUpper(d, v[0], v[1]));
  auto const ce = hn::Add(hn::InterleaveLower(d, v[2], v[3]), hn::InterleaveUpper(d, v[2], v[3]));
  auto const lower = hn::InterleaveLower(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
  auto const upper = hn::InterleaveUpper(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
  auto const blocks = hn::Add(hn::BitCast(d, lower), hn::BitCast(d, upper));
  store_sum_of_blocks(d, blocks, to);
}

// One point: `grad`, a row of grad_output, times the corners' values into dots[4], and times their
// weights to their sums.
template <bool kOfValue, bool kOfPoints, typename T>
HWY_INLINE void add_point(const float* grad, std::int64_t vectors, const T* const (&value)[4],
                          float* const (&sum)[4], V const (&weight)[4], float* dots) {
  const Floats d;
  V dot[4] = {hn::Zero(d), hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  for (std::int64_t v = 0; v < vectors; ++v) {
    auto const g = hn::LoadU(d, grad + v * kLanes);
    for (int c = 0; c < 4; ++c) {
      if constexpr (kOfPoints) dot[c] = hn::MulAdd(g, load(d, value[c] + v * kLanes), dot[c]);
      if constexpr (kOfValue) {
        float* const at = sum[c] + v * kLanes;
        hn::StoreU(hn::MulAdd(g, weight[c], hn::LoadU(d, at)), d, at);
      }
    }
  }
  if constexpr (kOfPoints) store_sums(dot, dots);
}

// Nearest sampling has one corner, whose dot product this returns. No number of another pixel may
// get into its sums.
template <bool kOfValue, bool kOfPoints, typename T>
HWY_INLINE float add_nearest(const float* grad, std::int64_t vectors, const T* value, float* sum,
                             float weight) {
  const Floats d;
  V dot = hn::Zero(d);
  for (std::int64_t v = 0; v < vectors; ++v) {
    auto const g = hn::LoadU(d, grad + v * kLanes);
    if constexpr (kOfPoints) dot = hn::MulAdd(g, load(d, value + v * kLanes), dot);
    if constexpr (kOfValue) {
      float* const at = sum + v * kLanes;
      hn::StoreU(hn::MulAdd(g, hn::Set(d, weight), hn::LoadU(d, at)), d, at);
    }
  }
  return hn::GetLane(hn::SumOfLanes(d, dot));
}

// Gradients of a vector of points, by pixels for an attention weight of 1, and by weight.
struct PointSums {
  HWY_ALIGN float x[kLanes];
  HWY_ALIGN float y[kLanes];
  HWY_ALIGN float weight[kLanes];
};

// Gradients follow from the dot products of each point's corners. Returns whether all of these are
// numbers; a point where one is none has to be done by sum_literally().
HWY_INLINE bool sum_dots(const float* dots, V fx, V fy, PointSums& to) {
  const Floats d;
  V dot[4];
  hn::LoadInterleaved4(d, dots, dot[0], dot[1], dot[2], dot[3]);
  auto const one = hn::Set(d, 1.0f);
  auto const gx = hn::Sub(one, fx), gy = hn::Sub(one, fy);
  auto const mix = [](V a, V wa, V b, V wb) HWY_ATTR { return hn::MulAdd(a, wa, hn::Mul(b, wb)); };
  hn::Store(mix(hn::Sub(dot[1], dot[0]), gy, hn::Sub(dot[3], dot[2]), fy), d, to.x);
  hn::Store(mix(hn::Sub(dot[2], dot[0]), gx, hn::Sub(dot[3], dot[1]), fx), d, to.y);
  hn::Store(mix(mix(dot[0], gx, dot[1], fx), gy, mix(dot[2], gx, dot[3], fx), fy), d, to.weight);
  auto const all = hn::Add(hn::Add(dot[0], dot[1]), hn::Add(dot[2], dot[3]));
  return hn::AllTrue(d, hn::Eq(hn::Sub(all, all), hn::Zero(d)));
}

// Gradients of a batch's points on a map of width x height, as records.
HWY_INLINE void store_gradients(Batch const& batch, PointSums const& by, std::int64_t width,
                                std::int64_t height, float scale, Record* to) {
  const Floats d;
  auto const factor = hn::Set(d, scale);
  auto const weight = hn::Mul(hn::Load(d, batch.weight), factor);
  auto const by_x =
      hn::Mul(hn::Load(d, by.x), hn::Mul(weight, hn::Set(d, static_cast<float>(width))));
  auto const by_y =
      hn::Mul(hn::Load(d, by.y), hn::Mul(weight, hn::Set(d, static_cast<float>(height))));
  hn::StoreInterleaved4(by_x, by_y, hn::Mul(hn::Load(d, by.weight), factor),
                        hn::Load(d, batch.place), d, reinterpret_cast<float*>(to));
}

// Sums of products with infinities cannot be taken apart, nor sums that overflow: these are the
// formula's own, of the point in lane i. Corners outside the map have zeros.
template <typename T>
HWY_NOINLINE void sum_literally(const float* grad, std::int64_t D, const T* const (&value)[4],
                                double fx, double fy, std::int64_t i, PointSums& to) {
  const hn::CappedTag<float, 1> one;
  double by_x = 0, by_y = 0, by_weight = 0;
  for (std::int64_t d = 0; d < D; ++d) {
    double v[4] = {}, sample = 0;
    for (int c = 0; c < 4; ++c) {
      v[c] = hn::GetLane(load(one, value[c] + d));
      sample += (c % 2 == 0 ? 1 - fx : fx) * (c / 2 == 0 ? 1 - fy : fy) * v[c];
    }
    double const g = grad[d];
    by_x += g * ((1 - fy) * (v[1] - v[0]) + fy * (v[3] - v[2]));
    by_y += g * ((1 - fx) * (v[2] - v[0]) + fx * (v[3] - v[1]));
    by_weight += g * sample;
  }
  to.x[i] = static_cast<float>(by_x);
  to.y[i] = static_cast<float>(by_y);
  to.weight[i] = static_cast<float>(by_weight);
}

}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET

#endif  // include guard
