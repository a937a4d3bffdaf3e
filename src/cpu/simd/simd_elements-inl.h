// Loading and storing the element types as float32 vectors. Included once a target by foreach_target.
#if defined(MSDA_SIMD_ELEMENTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MSDA_SIMD_ELEMENTS_INL_H_
#undef MSDA_SIMD_ELEMENTS_INL_H_
#else
#define MSDA_SIMD_ELEMENTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

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

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const F16* p) {
#if HWY_TARGET <= HWY_AVX2 || HWY_ARCH_ARM
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(d, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
#else
  // No conversion instruction: rebias the exponent by a product, which is right for subnormals too, and
  // put infinities and NaNs back.
  const hn::Rebind<std::uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  auto const half = hn::PromoteTo(d32, hn::LoadU(d16, &p->bits));
  auto const magnitude = hn::ShiftLeft<13>(hn::And(half, hn::Set(d32, 0x7FFFu)));
  auto const sign = hn::ShiftLeft<16>(hn::And(half, hn::Set(d32, 0x8000u)));
  auto const finite = hn::Mul(hn::BitCast(d, magnitude), hn::Set(d, 0x1p112f));
  auto const special = hn::Or(magnitude, hn::Set(d32, 0x7F800000u));
  auto const is_special = hn::Gt(hn::BitCast(hn::RebindToSigned<D>(), magnitude),
                                 hn::Set(hn::RebindToSigned<D>(), 0x0F7FFFFF));
  auto const bits = hn::IfThenElse(hn::RebindMask(d32, is_special), special, hn::BitCast(d32, finite));
  return hn::BitCast(d, hn::Or(bits, sign));
#endif
}

// OCP e4m3: bias 7, subnormals in steps of 2^-9, no infinity, NaN where all other bits are ones.
template <class D>
HWY_INLINE hn::Vec<D> load(D d, const F8* p) {
  const hn::Rebind<std::uint8_t, D> d8;
  const hn::RebindToSigned<D> d32;
  auto const bits = hn::BitCast(d32, hn::PromoteTo(hn::RebindToUnsigned<D>(), hn::LoadU(d8, &p->bits)));
  auto const magnitude = hn::And(bits, hn::Set(d32, 0x7F));
  auto const sign = hn::ShiftLeft<24>(hn::And(bits, hn::Set(d32, 0x80)));
  auto const shifted = hn::ShiftLeft<20>(magnitude);
  auto const normal = hn::BitCast(d, hn::Add(shifted, hn::Set(d32, 120 << 23)));
  // (1 + m / 8) 2^-6 - 2^-6 = m 2^-9
  auto const subnormal = hn::Sub(hn::BitCast(d, hn::Add(shifted, hn::Set(d32, 121 << 23))),
                                 hn::Set(d, 0x1p-6f));
  auto const is_subnormal = hn::RebindMask(d, hn::Lt(magnitude, hn::Set(d32, 8)));
  auto const is_nan = hn::RebindMask(d, hn::Eq(magnitude, hn::Set(d32, 0x7F)));
  auto const finite = hn::IfThenElse(is_subnormal, subnormal, normal);
  auto const value = hn::IfThenElse(is_nan, hn::Set(d, NAN), finite);
  return hn::BitCast(d, hn::Or(hn::BitCast(d32, value), sign));
}

// Converts `count` elements to float32; reads nothing behind them.
template <typename T>
HWY_INLINE void to_float(const T* from, std::int64_t count, float* to) {
  const hn::ScalableTag<float> d;
  auto const lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(load(d, from + i), d, to + i);
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) hn::StoreU(load(one, from + i), one, to + i);
}

HWY_INLINE void to_float(const double* from, std::int64_t count, float* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    // A finite coordinate stays finite: it is far outside either way, but not "no coordinate".
    double const v = from[i];
    bool const clamp = std::isfinite(v) && std::fabs(v) > FLT_MAX;
    to[i] = clamp ? std::copysign(FLT_MAX, static_cast<float>(v > 0 ? 1 : -1)) : static_cast<float>(v);
  }
}

// `count` elements from `first` of an array of `dtype`, as float32.
HWY_INLINE void read_floats(msda_dtype dtype, const void* array, std::int64_t first,
                            std::int64_t count, float* to) {
  switch (dtype) {
    case MSDA_F32: std::memcpy(to, static_cast<const float*>(array) + first, static_cast<std::size_t>(count) * sizeof(float)); return;
    case MSDA_F16: to_float(static_cast<const F16*>(array) + first, count, to); return;
    case MSDA_BF16: to_float(static_cast<const Bf16*>(array) + first, count, to); return;
    default: to_float(static_cast<const double*>(array) + first, count, to); return;
  }
}

// Rounds to nearest even; overflow becomes infinity.
template <class D>
HWY_INLINE void store_bf16(D, hn::Vec<D> v, std::uint16_t* to) {
  const hn::RebindToUnsigned<D> d32;
  const hn::Rebind<std::uint16_t, D> d16;
  auto const bits = hn::BitCast(d32, v);
  auto const odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1u));
  auto const rounded = hn::Add(hn::Add(bits, hn::Set(d32, 0x7FFFu)), odd);
  auto const quiet = hn::Or(bits, hn::Set(d32, 0x00400000u));
  auto const is_nan = hn::RebindMask(d32, hn::IsNaN(v));
  auto const result = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  // The values fit 16 bits, so the saturation of the narrowing never acts.
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(hn::RebindToSigned<D>(), result)), d16, to);
}

inline std::uint16_t half_bits(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  std::uint32_t const sign = (bits >> 16) & 0x8000u;
  std::uint32_t const magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return static_cast<std::uint16_t>(sign | 0x7E00u);
  // From 65520 on, halfway to the next power of two, the nearest half is infinity.
  if (magnitude >= 0x477FF000u) return static_cast<std::uint16_t>(sign | 0x7C00u);
  if (magnitude < 0x38800000u) {
    // Subnormal: adding 1/2 aligns the last bit of a half to that of a float, and the addition rounds.
    float shifted;
    std::memcpy(&shifted, &magnitude, sizeof(shifted));
    shifted += 0.5f;
    std::uint32_t result;
    std::memcpy(&result, &shifted, sizeof(result));
    return static_cast<std::uint16_t>(sign | (result - 0x3F000000u));
  }
  std::uint32_t const odd = (magnitude >> 13) & 1u;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xFFFu + odd) >> 13));
}

template <class D>
HWY_INLINE void store_f16(D d, hn::Vec<D> v, std::uint16_t* to) {
#if HWY_TARGET <= HWY_AVX2 || HWY_ARCH_ARM
  const hn::Rebind<hwy::float16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, v), d16, reinterpret_cast<hwy::float16_t*>(to));
#else
  HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
  hn::StoreU(v, d, lanes);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) to[i] = half_bits(lanes[i]);
#endif
}

template <class D>
HWY_INLINE void store(D d, hn::Vec<D> v, msda_dtype dtype, void* array, std::int64_t index) {
  switch (dtype) {
    case MSDA_F32: hn::StoreU(v, d, static_cast<float*>(array) + index); return;
    case MSDA_F16: store_f16(d, v, static_cast<std::uint16_t*>(array) + index); return;
    case MSDA_BF16: store_bf16(d, v, static_cast<std::uint16_t*>(array) + index); return;
    default: {
      HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
      hn::StoreU(v, d, lanes);
      for (std::size_t i = 0; i < hn::Lanes(d); ++i) {
        static_cast<double*>(array)[index + static_cast<std::int64_t>(i)] = lanes[i];
      }
    }
  }
}

}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard
