// example takes every problem.
#include "support/kernel_limits.h"

namespace msda::test::example {

extern const KernelLimits kLimits{
    .family = "example",
    .reason = [](KernelId const&, ProblemShape const&) { return std::string(); },
    .sums_in_float64 = true,
};

}  // namespace msda::test::example
