// sorted is a backward of rows of 16 bytes, with strides and types of any kind.
#include "support/kernel_limits.h"

namespace msda::test::sorted {
namespace {

bool sizes_fit(ProblemShape const& shape) {
  double cells = 0;
  for (command::LevelShape const& level : shape.levels)
    cells += (level.width + 1.0) * (level.height + 1.0);
  double const points =
      static_cast<double>(shape.query_count) * static_cast<double>(shape.point_total());
  return layout_of(shape, command::TensorId::kValue).dims[1] <= INT32_MAX &&
         shape.query_count <= INT32_MAX && points <= INT32_MAX && cells < 1 << 26 &&
         shape.batch * shape.head_count < INT32_MAX && shape.batch * shape.query_count < INT32_MAX;
}

std::string reason(KernelId const& id, ProblemShape const& shape) {
  std::string const reason = points_reason(id, shape, false);
  if (!reason.empty()) return reason;
  return sizes_fit(shape) ? "" : kTooLarge;
}

}  // namespace

extern const KernelLimits kLimits{.family = "sorted",
                                  .reason = reason,
                                  .does_forward = never,
                                  .keeps_sm_limit = refuses_sm_limits};

}  // namespace msda::test::sorted
