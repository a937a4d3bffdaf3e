// simd takes every problem of its value_dtype but gradients of levels that overlap or of no
// channels.
#include "support/kernel_limits.h"

namespace msda::test::simd {
namespace {

std::string reason(KernelId const& id, ProblemShape const& shape) {
  if (shape.value_dtype != id.value_dtype()) return kWrongValueDtype;
  if (shape.backward() && shape.head_dim == 0) return kWrongHeadDim;
  return shape.backward() && levels_overlap(shape) ? kOverlap : "";
}

}  // namespace

extern const KernelLimits kLimits;
const KernelLimits kLimits{.family = "simd", .reason = reason};

}  // namespace msda::test::simd
