// Loads and stores of the element types as float32 vectors, and never a byte outside what was asked
// for. Included once a target by foreach_target.
#if defined(MSDA_SIMD_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MSDA_SIMD_ELEMENTS_INL_H_
#undef MSDA_SIMD_ELEMENTS_INL_H_
#else
#define MSDA_SIMD_ELEMENTS_INL_H_
#endif

#include <hwy/highway.h>
#include <msda.h>

#include <algorithm>
#include <cstdint>

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
inline constexpr std::int64_t kLanes = hn::MaxLanes(Floats());

// Whether the target converts binary16 in hardware, and whether a masked load leaves alone what it
// masks.
#if HWY_ARCH_X86
#define MSDA_SIMD_HAS_F16 (HWY_TARGET <= HWY_AVX2)
#define MSDA_SIMD_HAS_MASKED_LOAD (HWY_TARGET <= HWY_AVX2)
#else
#define MSDA_SIMD_HAS_F16 HWY_ARCH_ARM_A64
#define MSDA_SIMD_HAS_MASKED_LOAD 0
#endif

// Storage types that C++ has no arithmetic for.
struct F16 {
  std::uint16_t bits;
};
struct Bf16 {
  std::uint16_t bits;
};
struct F8 {
  std::uint8_t bits;
};

// Returns fn(Element<T>()) for the type of coordinates, weights or references.
template <typename T>
struct Element {
  using Type = T;
};
template <class Fn>
HWY_INLINE auto with_element(msda_dtype dtype, Fn fn) {
  switch (dtype) {
    case MSDA_DTYPE_F32:
      return fn(Element<float>());
    case MSDA_DTYPE_F16:
      return fn(Element<F16>());
    case MSDA_DTYPE_BF16:
      return fn(Element<Bf16>());
    default:
      return fn(Element<double>());
  }
}

// ---- loads: as many elements as D has lanes

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* p) {
  return hn::LoadU(d, p);
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const Bf16* p) {
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, &p->bits))));
}

// binary16 in the lanes of a vector of uint16.
template <class D, class V16>
HWY_INLINE hn::Vec<D> promote_f16(D d, V16 half) {
#if MSDA_SIMD_HAS_F16
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
#else
  // A product rebiases the exponent and is exact for subnormals too; infinities and NaNs are put
  // back.
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> di;
  auto const bits = hn::PromoteTo(d32, half);
  auto const magnitude = hn::ShiftLeft<13>(hn::And(bits, hn::Set(d32, 0x7FFFu)));
  auto const sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(d32, 0x8000u)));
  auto const finite = hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f));
  auto const special = hn::Or(magnitude, hn::Set(d32, 0x7F800000u));
  auto const is_special = hn::Gt(hn::BitCast(di, magnitude), hn::Set(di, 0x0F7FFFFF));
  return hn::BitCast(d, hn::Or(sign, hn::IfThenElse(hn::RebindMask(d32, is_special), special,
                                                    hn::BitCast(d32, finite))));
#endif
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const F16* p) {
  return promote_f16(d, hn::LoadU(hn::Rebind<std::uint16_t, D>(), &p->bits));
}

// The unit in which 8-bit values are loaded.
inline constexpr float kF8Unit = 0x1p8f;

// 8-bit values go through binary16, which has one more exponent bit and seven more of mantissa:
// shifted into place they are binary16 numbers 2^8 times too small. The sum of a row makes up for
// it.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const F8* p) {
  const hn::Rebind<std::uint8_t, D> d8;
  const hn::Rebind<std::int16_t, D> d16;
  auto const bits = hn::ShiftLeft<8>(hn::PromoteTo(d16, hn::LoadU(d8, &p->bits)));
  // s m6..m0 0 0 0 0 0 0 0 0 becomes s 0 m6..m0 0 0 0 0 0 0 0: the arithmetic shift doubles the
  // sign.
  auto const half =
      hn::And(hn::ShiftRight<1>(bits), hn::Set(d16, static_cast<std::int16_t>(0xBFFF)));
  auto const all_ones = hn::Set(d16, 0x3F80);
  auto const is_nan = hn::VecFromMask(d16, hn::Eq(hn::And(half, all_ones), all_ones));
  auto const quiet_nan = hn::And(is_nan, hn::Set(d16, 0x7E00));
  return promote_f16(d,
                     hn::BitCast(hn::RebindToUnsigned<decltype(d16)>(), hn::Or(half, quiet_nan)));
}

// The first `count` lanes from memory, the others zero.
template <class D>
HWY_INLINE hn::Vec<D> load_first(D d, const float* p, std::int64_t count) {
  auto const lanes = static_cast<std::int64_t>(hn::Lanes(d));
  if (HWY_LIKELY(count >= lanes)) return hn::LoadU(d, p);
  if (count <= 0) return hn::Zero(d);
#if MSDA_SIMD_HAS_MASKED_LOAD
  return hn::MaskedLoad(hn::FirstN(d, static_cast<std::size_t>(count)), d, p);
#else
  HWY_ALIGN float padded[hn::MaxLanes(D())] = {};
  for (std::int64_t i = 0; i < count; ++i) padded[i] = p[i];
  return hn::Load(d, padded);
#endif
}

// Converts `count` elements exactly.
template <typename T>
HWY_INLINE void to_floats(const T* from, std::int64_t count, float* to) {
  const Floats d;
  const hn::CappedTag<float, 1> one;
  auto const lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(load(d, from + i), d, to + i);
  for (; i < count; ++i) hn::StoreU(load(one, from + i), one, to + i);
}

// Reads elements of any type behind an address. float64 is rounded, 8-bit values get their unit
// back.
HWY_INLINE void to_floats(msda_dtype dtype, std::uintptr_t address, std::int64_t count, float* to) {
  switch (dtype) {
    case MSDA_DTYPE_F32:
      return to_floats(reinterpret_cast<const float*>(address), count, to);
    case MSDA_DTYPE_F16:
      return to_floats(reinterpret_cast<const F16*>(address), count, to);
    case MSDA_DTYPE_BF16:
      return to_floats(reinterpret_cast<const Bf16*>(address), count, to);
    case MSDA_DTYPE_F8_E4M3:
      to_floats(reinterpret_cast<const F8*>(address), count, to);
      for (std::int64_t i = 0; i < count; ++i) to[i] *= kF8Unit;
      return;
    default:
      for (std::int64_t i = 0; i < count; ++i) {
        to[i] = static_cast<float>(reinterpret_cast<const double*>(address)[i]);
      }
  }
}

// Elements as float32 behind a pointer that may be read `count` times: the array itself, or a copy.
HWY_INLINE const float* as_floats(const float* from, std::int64_t, float*) { return from; }
template <typename T>
HWY_INLINE const float* as_floats(const T* from, std::int64_t count, float* copy) {
  to_floats(from, count, copy);
  return copy;
}

// `count` elements of each of some rows, `stride` apart, as float32 one row behind the other, and
// up to a vector more.
template <typename T>
HWY_INLINE void copy_rows(const T* from, std::int64_t stride, std::int64_t rows, std::int64_t count,
                          float* to) {
  const Floats d;
  for (std::int64_t r = 0; r < rows; ++r, from += stride, to += count) {
    for (std::int64_t i = 0; i < count; i += kLanes) {
      HWY_ALIGN float copy[kLanes];
      std::int64_t const left = std::min(count - i, kLanes);
      hn::StoreU(load_first(d, as_floats(from + i, left, copy), left), d, to + i);
    }
  }
}

// One row of float64.
HWY_INLINE void copy_rows(const double* from, std::int64_t, std::int64_t, std::int64_t count,
                          float* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

// ---- rows of K = 1, 2, 4 or 8 lanes, several in a vector

// Combines the lanes of each row, all of which get the result.
template <class V, class Op>
HWY_INLINE V over_rows(V v, std::int64_t K, Op op) {
  if constexpr (kLanes >= 8) {
    if (K >= 8) v = op(v, hn::SwapAdjacentBlocks(v));
  }
  if (K >= 4) v = op(v, hn::Shuffle1032(v));
  if (K >= 2) v = op(v, hn::Shuffle2301(v));
  return v;
}

// In the order in which SumOfLanes adds the lanes of a vector.
template <class V>
HWY_INLINE V sum_of_rows(V v, std::int64_t K) {
  return over_rows(v, K, [](V a, V b) HWY_ATTR { return hn::Add(a, b); });
}

// ---- stores: one rounding, to nearest even; overflow becomes infinity

// The bits of a bfloat16 in the upper half of each lane; the lower half is to be dropped.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> round_to_bf16(D, hn::Vec<D> v) {
  const hn::RebindToUnsigned<D> d32;
  auto const bits = hn::BitCast(d32, v);
  auto const odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  auto const rounded = hn::Add(hn::Add(bits, hn::Set(d32, 0x7FFFu)), odd);
  auto const quiet_nan = hn::Or(bits, hn::Set(d32, 0x00400000u));
  return hn::IfThenElse(hn::RebindMask(d32, hn::IsNaN(v)), quiet_nan, rounded);
}

// Lanes below 2^16, narrowed.
template <class D32, class V32>
HWY_INLINE void store_low_halves(D32, V32 v, std::uint16_t* to) {
  const hn::Rebind<std::uint16_t, D32> d16;
  // The saturating narrowing of signed lanes exists everywhere, and here never saturates.
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<D32>(), v)), d16, to);
}

template <class D>
HWY_INLINE void store_f16([[maybe_unused]] D d, hn::Vec<D> v, std::uint16_t* to) {
#if MSDA_SIMD_HAS_F16
  const hn::Rebind<hwy::float16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(to));
#else
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> di;
  auto const is_above = [&](auto bits, std::int32_t limit) HWY_ATTR {
    return hn::RebindMask(d32, hn::Gt(hn::BitCast(di, bits), hn::Set(di, limit)));
  };
  auto const bits = hn::BitCast(d32, v);
  auto const sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 0x8000u));
  auto const magnitude = hn::And(bits, hn::Set(d32, 0x7FFFFFFFu));
  // Subnormal results: adding 1/2 aligns the last bit of a half with that of a float, and rounds.
  auto const aligned = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f));
  auto const subnormal = hn::Sub(hn::BitCast(d32, aligned), hn::Set(d32, 0x3F000000u));
  auto const odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d32, 1u));
  auto const rounding = hn::Add(odd, hn::Set(d32, 0xC8000FFFu));  // and 15 - 127 for the exponent
  auto const normal = hn::ShiftRight<13>(hn::Add(magnitude, rounding));
  auto const finite = hn::IfThenElse(is_above(magnitude, 0x387FFFFF), normal, subnormal);
  auto const infinite = hn::Set(d32, 0x7C00u), quiet_nan = hn::Set(d32, 0x7E00u);
  auto const large = hn::IfThenElse(is_above(magnitude, 0x7F800000), quiet_nan, infinite);
  store_low_halves(
      d32, hn::Or(sign, hn::IfThenElse(is_above(magnitude, 0x477FFFFF), large, finite)), to);
#endif
}

template <class D>
HWY_INLINE void store_f64(D d, hn::Vec<D> v, double* to) {
  HWY_ALIGN float lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) to[i] = lanes[i];
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, msda_dtype dtype, void* array, std::int64_t index) {
  switch (dtype) {
    case MSDA_DTYPE_F32:
      return hn::StoreU(v, d, static_cast<float*>(array) + index);
    case MSDA_DTYPE_F16:
      return store_f16(d, v, static_cast<std::uint16_t*>(array) + index);
    case MSDA_DTYPE_BF16:
      return store_low_halves(hn::RebindToUnsigned<D>(), hn::ShiftRight<16>(round_to_bf16(d, v)),
                              static_cast<std::uint16_t*>(array) + index);
    default:
      return store_f64(d, v, static_cast<double*>(array) + index);
  }
}

// Whether floats from there on can be stored past the caches: lines in parts of 16 bytes.
HWY_INLINE bool may_stream(const float* to) {
  return reinterpret_cast<std::uintptr_t>(to) % 16 == 0;
}
HWY_INLINE bool is_line(const float* to) { return reinterpret_cast<std::uintptr_t>(to) % 64 == 0; }

// `count` floats, a multiple of 4, from within a line on: the whole lines past the caches. The
// parts of lines at both ends belong to other rows, too.
HWY_INLINE void stream_within_lines(const float* from, std::int64_t count, float* to) {
  const Floats d;
  const hn::CappedTag<float, 4> part;
  auto const lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i < count && !is_line(to + i); i += 4) hn::StoreU(hn::LoadU(part, from + i), part, to + i);
  for (std::int64_t const end = i + (count - i) / 16 * 16; i < end; i += lanes) {
    hn::Stream(hn::LoadU(d, from + i), d, to + i);
  }
  for (; i < count; i += 4) hn::StoreU(hn::LoadU(part, from + i), part, to + i);
}

// Fewer than 2 kPart floats into elements from `index` on: half a vector, a quarter, and so on.
template <std::size_t kPart>
HWY_INLINE void store_rest(const float* from, std::int64_t count, msda_dtype dtype, void* array,
                           std::int64_t index) {
  const hn::CappedTag<float, kPart> part;
  bool const has_part = count >= static_cast<std::int64_t>(kPart);
  if (has_part) store(part, hn::LoadU(part, from), dtype, array, index);
  if constexpr (kPart > 1) {
    std::int64_t const done = has_part ? static_cast<std::int64_t>(kPart) : 0;
    store_rest<kPart / 2>(from + done, count - done, dtype, array, index + done);
  }
}

// `count` floats into elements from `index` on; their whole lines past the caches where `streams`.
HWY_INLINE void store_row(const float* from, std::int64_t count, msda_dtype dtype, void* array,
                          std::int64_t index, bool streams = false) {
  const Floats d;
  auto const lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  float* const floats = static_cast<float*>(array) + index;
  if (streams && dtype == MSDA_DTYPE_F32 && count % 16 == 0 && may_stream(floats)) {
    return stream_within_lines(from, count, floats);
  }
  for (; i + lanes <= count; i += lanes) store(d, hn::LoadU(d, from + i), dtype, array, index + i);
  store_rest<hn::MaxLanes(Floats()) / 2>(from + i, count - i, dtype, array, index + i);
}

}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET

#endif  // include guard
