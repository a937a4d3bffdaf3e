// Attention weights of points: those of the caller, or the softmax of logits. Included once a
// target by foreach_target.
#if defined(MSDA_SIMD_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MSDA_SIMD_WEIGHTS_INL_H_
#undef MSDA_SIMD_WEIGHTS_INL_H_
#else
#define MSDA_SIMD_WEIGHTS_INL_H_
#endif

#include "cpu/simd/simd_elements-inl.h"
#include "cpu/simd/simd_kernel.h"

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {

// ---- attention weights

HWY_INLINE void read_weights(HeadSource const& source, PointRange const& range, float* to) {
  std::int64_t const row = source.problem.weight.row;
  std::int64_t const first = source.weight + range.q * row + range.first;
  with_element(source.problem.weight_dtype, [&](auto element) HWY_ATTR {
    using T = typename decltype(element)::Type;
    const T* const array = static_cast<const T*>(source.call[Tensor::kWeight]);
    copy_rows(array + first, row, range.rows, range.count, to);
  });
}

// ---- softmax

template <typename T>
HWY_INLINE double largest_of(const T* row, std::int64_t K) {
  const Floats d;
  HWY_ALIGN float copy[kPointBlock];
  auto const least = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto largest = least;
  for (std::int64_t k = 0; k < K; k += kPointBlock) {
    std::int64_t const count = std::min(K - k, kPointBlock);
    const float* const floats = as_floats(row + k, count, copy);
    for (std::int64_t i = 0; i < count; i += kLanes) {
      auto const present = hn::FirstN(d, static_cast<std::size_t>(std::min(count - i, kLanes)));
      auto const logit = load_first(d, floats + i, count - i);
      largest = hn::Max(largest, hn::IfThenElse(present, logit, least));
    }
  }
  return static_cast<double>(hn::GetLane(hn::MaxOfLanes(d, largest)));
}

HWY_INLINE double largest_of(const double* row, std::int64_t K) {
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t k = 0; k < K; ++k) largest = std::max(largest, row[k]);
  return largest;
}

// Highway's Exp is for numbers: a NaN must stay one, and minus infinity gives zero.
template <class V>
HWY_INLINE V exponential(V x) {
  const Floats d;
  auto const power = hn::Exp(d, hn::Max(x, hn::Set(d, -128.0f)));
  return hn::IfThenElse(hn::Eq(x, x), power, x);
}

// Differences of a block from the largest logit, behind them minus infinity up to a whole vector.
// They are formed in the type of the logits: float64 ones may agree in all of float32's digits.
template <typename T>
HWY_INLINE void subtract(const T* logit, std::int64_t count, double largest, float* to) {
  const Floats d;
  auto const none = hn::Set(d, -std::numeric_limits<float>::infinity());
  HWY_ALIGN float copy[kPointBlock];
  const float* floats = copy;
  auto shift = hn::Zero(d);
  if constexpr (std::is_same_v<T, double>) {
    for (std::int64_t i = 0; i < count; ++i) copy[i] = static_cast<float>(logit[i] - largest);
  } else {
    floats = as_floats(logit, count, copy);
    shift = hn::Set(d, static_cast<float>(largest));
  }
  for (std::int64_t i = 0; i < count; i += kLanes) {
    auto const present = hn::FirstN(d, static_cast<std::size_t>(std::min(count - i, kLanes)));
    auto const difference = hn::Sub(load_first(d, floats + i, count - i), shift);
    hn::Store(hn::IfThenElse(present, difference, none), d, to + i);
  }
}

// Exponentials take the place of differences.
HWY_INLINE void exponentiate(std::int64_t count, float* block) {
  const Floats d;
  for (std::int64_t i = 0; i < count; i += kLanes) {
    hn::Store(exponential(hn::Load(d, block + i)), d, block + i);
  }
}

template <class V>
HWY_INLINE V add_block(const float* block, std::int64_t count, V sum) {
  const Floats d;
  for (std::int64_t i = 0; i < count; i += kLanes) sum = hn::Add(sum, hn::Load(d, block + i));
  return sum;
}

template <class V>
HWY_INLINE void divide(std::int64_t count, V sum, float* block) {
  const Floats d;
  for (std::int64_t i = 0; i < count; i += kLanes) {
    hn::Store(hn::Div(hn::Load(d, block + i), sum), d, block + i);
  }
}

// Weights of rows of at most a vector of logits, each in `to` a vector behind the one before.
template <typename T>
HWY_INLINE void vector_rows(const T* logit, std::int64_t stride, std::int64_t rows, std::int64_t K,
                            float* to) {
  const Floats d;
  auto const none = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto const present = hn::FirstN(d, static_cast<std::size_t>(K));
  for (std::int64_t r = 0; r < rows; ++r) {
    HWY_ALIGN float copy[kLanes];
    const float* const floats = as_floats(logit + r * stride, K, copy);
    auto const x = hn::IfThenElse(present, load_first(d, floats, K), none);
    // NaN comes to stand behind the last logit only where the whole row becomes NaN.
    hn::Store(hn::Sub(x, hn::MaxOfLanes(d, x)), d, to + r * kLanes);
  }
  exponentiate(rows * kLanes, to);
  for (float* row = to; row < to + rows * kLanes; row += kLanes) {
    auto const e = hn::Load(d, row);
    hn::Store(hn::Div(e, hn::SumOfLanes(d, e)), d, row);
  }
}

// Weights of rows that are read together, in `to` one behind the other.
template <typename T>
HWY_INLINE void packed_rows(const T* logit, std::int64_t stride, std::int64_t rows, std::int64_t K,
                            float* to) {
  const Floats d;
  auto const larger = [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); };
  copy_rows(logit, stride, rows, K, to);
  for (std::int64_t i = 0; i < rows * K; i += kLanes) {
    auto const x = load_first(d, to + i, rows * K - i);
    auto const e = exponential(hn::Sub(x, over_rows(x, K, larger)));
    hn::Store(hn::Div(e, sum_of_rows(e, K)), d, to + i);
  }
}

// Weights of rows of at most a block of logits, the same with vectors to the row.
template <typename T>
HWY_INLINE void block_rows(const T* logit, std::int64_t stride, std::int64_t rows, std::int64_t K,
                           std::int64_t padded, float* to) {
  const Floats d;
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* const row = logit + r * stride;
    subtract(row, K, largest_of(row, K), to + r * padded);
  }
  exponentiate(rows * padded, to);
  for (float* row = to; row < to + rows * padded; row += padded) {
    divide(K, hn::SumOfLanes(d, add_block(row, K, hn::Zero(d))), row);
  }
}

// The weights of as many queries from q on as `known` holds, of at most a block each.
template <typename T>
void short_rows(HeadSource const& source, std::int64_t q, Softmax& known) {
  std::int64_t const K = source.problem.point_total;
  std::int64_t const stride = source.problem.weight.row;
  const T* const logit =
      static_cast<const T*>(source.call[Tensor::kLogit]) + source.weight + q * stride;
  bool const is_packed = source.tables.read.rows > 1;
  known.row_floats = is_packed ? K : (K + kLanes - 1) / kLanes * kLanes;
  known.begin = q;
  known.end = std::min(q + kSoftmaxAhead / known.row_floats, source.problem.query_count);
  std::int64_t const rows = known.end - q;
  if constexpr (!std::is_same_v<T, double>) {
    if (is_packed) return packed_rows(logit, stride, rows, K, known.weights);
    if (K <= kLanes) return vector_rows(logit, stride, rows, K, known.weights);
  }
  block_rows(logit, stride, rows, K, known.row_floats, known.weights);
}

// Weights of points [first, first + count) of a longer row. The first block that is read of a row
// finds the largest logit and the sum; the others take them from `known`.
template <typename T>
void long_row(HeadSource const& source, std::int64_t q, std::int64_t first, std::int64_t count,
              Softmax& known, float* to) {
  const Floats d;
  std::int64_t const K = source.problem.point_total;
  const T* const row = static_cast<const T*>(source.call[Tensor::kLogit]) + source.weight +
                       q * source.problem.weight.row;
  if (known.query != q) {
    double const largest = largest_of(row, K);
    auto sum = hn::Zero(d);
    for (std::int64_t k = 0; k < K; k += kPointBlock) {
      std::int64_t const block = std::min(K - k, kPointBlock);
      subtract(row + k, block, largest, to);
      exponentiate(block, to);
      sum = add_block(to, block, sum);
    }
    known.query = q;
    known.largest_logit = largest;
    known.exp_sum = hn::GetLane(hn::SumOfLanes(d, sum));
  }
  subtract(row + first, count, known.largest_logit, to);
  exponentiate(count, to);
  divide(count, hn::Set(d, known.exp_sum), to);
}

HWY_NOINLINE void read_short_rows(HeadSource const& source, std::int64_t q, Softmax& known) {
  with_element(source.problem.weight_dtype, [&](auto element) HWY_ATTR {
    short_rows<typename decltype(element)::Type>(source, q, known);
  });
}

HWY_NOINLINE void read_long_row(HeadSource const& source, std::int64_t q, std::int64_t first,
                                std::int64_t count, Softmax& known, float* to) {
  with_element(source.problem.weight_dtype, [&](auto element) HWY_ATTR {
    long_row<typename decltype(element)::Type>(source, q, first, count, known, to);
  });
}

HWY_INLINE void read_softmax(HeadSource const& source, PointRange const& range, Softmax& known,
                             float* to) {
  const Floats d;
  if (HWY_UNLIKELY(source.problem.point_total > kPointBlock)) {
    return read_long_row(source, range.q, range.first, range.count, known, to);
  }
  bool const is_known = range.q >= known.begin && range.q + range.rows <= known.end;
  if (!is_known) read_short_rows(source, range.q, known);
  const float* const row = known.weights + (range.q - known.begin) * known.row_floats;
  for (std::int64_t i = 0; i < range.size(); i += kLanes) {
    hn::Store(hn::LoadU(d, row + i), d, to + i);
  }
}

}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET

#endif  // include guard
