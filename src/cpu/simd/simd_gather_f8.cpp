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
