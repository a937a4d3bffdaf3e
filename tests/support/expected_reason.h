// What each kernel is expected to refuse, in the words of msda_explain(). Written by hand, apart
// from the kernels: a kernel that starts to refuse more, or quietly takes what it cannot do, fails
// the tests.
#pragma once

#include "support/runner.h"

#include <string>

namespace msda::test {

// "" when the kernel is expected to take the problem on the handle's device.
std::string expected_reason(TestHandle const& handle, std::string const& kernel_id,
                            ProblemShape const& shape);

// What the kernel computes its forward sums in.
enum class Arithmetic;
Arithmetic arithmetic_of(std::string const& kernel_id);

// Whether the kernel keeps levels in shared memory ("s1c", "h1c"). That pays where points are
// scattered, which no plan can know: only measurement chooses these kernels.
bool keeps_levels(std::string const& kernel_id);

}  // namespace msda::test
