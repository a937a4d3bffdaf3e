// The gather of f8 values, compiled once a target.

#include "cpu/simd/simd_kernel.h"

#define HWY_DISABLED_TARGETS MSDA_SIMD_DISABLED_TARGETS
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd/simd_gather_f8.cpp"
#include <hwy/foreach_target.h>
// After foreach_target:
#include "cpu/simd/simd_gather-inl.h"

HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR
Gather choose_f8(Problem const&) { return nullptr; }
#else
struct F8 {
  std::uint8_t bits;
};

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

Gather choose_f8(Problem const& problem) { return choose_plain<F8>(problem); }
#endif

}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msda::simd {

HWY_EXPORT(choose_f8);
Gather choose_gather_f8(Problem const& problem) { return HWY_DYNAMIC_DISPATCH(choose_f8)(problem); }

}  // namespace msda::simd
#endif
