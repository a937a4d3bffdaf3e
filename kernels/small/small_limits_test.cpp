// small is a deterministic backward of rows of 16 bytes, of problems whose blocks fit one launch.
#include "support/kernel_limits.h"

namespace msda::test::small {
namespace {

bool sizes_fit(ProblemShape const& shape) {
  auto const Q = static_cast<double>(shape.query_count);
  auto const M = static_cast<double>(shape.head_count);
  auto const B = static_cast<double>(shape.batch);
  double tiles = 0;
  for (command::LevelShape const& level : shape.levels) {
    tiles += static_cast<double>(level.height) * ((level.width + 511) / 512);
  }
  return layout_of(shape, command::TensorId::kValue).dims[1] <= INT32_MAX && Q <= INT32_MAX &&
         Q * static_cast<double>(shape.point_total()) <= INT32_MAX && B * M < INT32_MAX &&
         B * Q < INT32_MAX && B * Q * M <= INT32_MAX && B * M * tiles < 1 << 30;
}

std::string reason(KernelId const& id, ProblemShape const& shape) {
  std::string const reason = points_reason(id, shape, false);
  if (!reason.empty()) return reason;
  if (shape.levels.size() > 16) return kWrongLevels;
  return sizes_fit(shape) ? "" : kTooLarge;
}

}  // namespace

extern const KernelLimits kLimits{.family = "small",
                                  .reason = reason,
                                  .does_forward = never,
                                  .keeps_sm_limit = refuses_sm_limits};

}  // namespace msda::test::small
