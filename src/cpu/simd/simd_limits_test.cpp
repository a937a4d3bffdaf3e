// simd takes every problem of its value_dtype but gradients of levels that overlap or of no
// channels, and nearest points of levels whose pixels float32 does not tell apart.
#include "support/kernel_limits.h"

namespace msda::test::simd {
namespace {

std::string reason(KernelId const& id, ProblemShape const& shape) {
  if (shape.value_dtype != id.value_dtype()) return kWrongValueDtype;
  if (shape.backward() && shape.head_dim == 0) return kWrongHeadDim;
  if (shape.backward() && levels_overlap(shape)) return kOverlap;
  return shape.nearest() ? far_levels_reason(shape) : "";
}

}  // namespace

extern const KernelLimits kLimits{.family = "simd", .reason = reason};

}  // namespace msda::test::simd
