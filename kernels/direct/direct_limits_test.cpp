// direct's generic kernels ("dany") take every problem of their value_dtype; its row kernels are
// forwards of packed rows.
#include "support/kernel_limits.h"

namespace msda::test::direct {
namespace {

bool is_generic(KernelId const& id) { return id.part(3) == "dany"; }

std::string reason(KernelId const& id, ProblemShape const& shape) {
  if (!is_generic(id)) return row_reason(id, shape, {.points = id.part(4)});
  return shape.value_dtype == id.value_dtype() ? "" : kWrongValueDtype;
}

}  // namespace

extern const KernelLimits kLimits{
    .family = "direct",
    .reason = reason,
    .does_backward = is_generic,
    .keeps_sm_limit = [](KernelId const& id, std::int64_t) { return is_generic(id); },
};

}  // namespace msda::test::direct
