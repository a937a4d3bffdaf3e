// pipeline is a forward of packed rows with any points.
#include "support/kernel_limits.h"

namespace msda::test::pipeline {
namespace {

std::string reason(KernelId const& id, ProblemShape const& shape) {
  return row_reason(id, shape, {.points = "pany"});
}

}  // namespace

extern const KernelLimits kLimits{.family = "pipeline",
                                  .reason = reason,
                                  .does_backward = never,
                                  .keeps_sm_limit = refuses_sm_limits};

}  // namespace msda::test::pipeline
