// atomic is a backward of rows of 16 bytes that adds gradients in any order.
#include "support/kernel_limits.h"

#include <algorithm>

namespace msda::test::atomic {
namespace {

bool sizes_fit(ProblemShape const& shape) {
  double points = 1;
  for (std::int64_t const size :
       {shape.batch, shape.query_count, shape.head_count, std::int64_t{shape.point_total()}}) {
    points *= std::max(1.0, static_cast<double>(size));
  }
  return points <= INT32_MAX && layout_of(shape, command::TensorId::kValue).dims[1] <= INT32_MAX;
}

std::string reason(KernelId const& id, ProblemShape const& shape) {
  std::string const reason = points_reason(id, shape, true);
  if (!reason.empty()) return reason;
  return sizes_fit(shape) ? "" : kTooLarge;
}

}  // namespace

extern const KernelLimits kLimits{.family = "atomic",
                                  .reason = reason,
                                  .does_forward = never,
                                  .keeps_sm_limit = refuses_sm_limits,
                                  .is_deterministic = false};

}  // namespace msda::test::atomic
