// The body of simd_gather_<type>.cpp, which defines MSDA_CHOOSE_GATHER, the name of its function,
// and MSDA_GATHER, the gather of its type for a problem. Included once a target: no guard.

#include "cpu/simd/simd_kernel.h"

#define HWY_DISABLED_TARGETS MSDA_SIMD_DISABLED_TARGETS
#include <hwy/foreach_target.h>
// After foreach_target:
#include "cpu/simd/simd_gather-inl.h"

HWY_BEFORE_NAMESPACE();
namespace msda::simd::HWY_NAMESPACE {
namespace {

#if HWY_TARGET == HWY_SCALAR
Gather choose(Problem const&) { return nullptr; }
#else
Gather choose(Problem const& problem) { return MSDA_GATHER; }
#endif

}  // namespace
}  // namespace msda::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace msda::simd {

HWY_EXPORT(choose);
Gather MSDA_CHOOSE_GATHER(Problem const& problem) { return HWY_DYNAMIC_DISPATCH(choose)(problem); }

}  // namespace msda::simd
#endif
