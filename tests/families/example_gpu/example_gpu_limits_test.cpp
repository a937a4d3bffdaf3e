// example_gpu is a forward of float32 values with any points.
#include "support/kernel_limits.h"

namespace msda::test::example_gpu {
namespace {

std::string reason(KernelId const& id, ProblemShape const& shape) {
  if (shape.value_dtype != id.value_dtype()) return kWrongValueDtype;
  if (shape.operation != MSDA_FORWARD) return kWrongOperation;
  if (shape.nearest()) return kWrongSampling;
  return float64_reason(shape);
}

}  // namespace

extern const KernelLimits kLimits{.family = "example_gpu",
                                  .reason = reason,
                                  .does_backward = never,
                                  .keeps_sm_limit = refuses_sm_limits};

}  // namespace msda::test::example_gpu
