// ref takes every problem.
#include "support/kernel_limits.h"

namespace msda::test::ref {

extern const KernelLimits kLimits{
    .family = "ref",
    .reason = [](KernelId const&, ProblemShape const&) { return std::string(); },
    .sums_in_float64 = true,
};

}  // namespace msda::test::ref
