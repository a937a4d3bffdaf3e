// A kernel is expected to refuse and to do this, by its id: the limits of its family
// (support/kernel_limits.h), and those that all families have in common.
#pragma once

#include "support/runner.h"

#include "command/check/forward_bound.h"

#include <string>

namespace msda::test {

// "" when the kernel is expected to take the problem on a CPU or a GPU; the handle says which.
std::string expected_reason(bool on_gpu, std::string const& kernel_id, ProblemShape const& shape);
std::string expected_reason(TestHandle const& handle, std::string const& kernel_id,
                            ProblemShape const& shape);
bool is_for_gpu(std::string const& kernel_id);
// Whether the kernel computes outputs, and gradients.
bool does_forward(std::string const& kernel_id);
bool does_backward(std::string const& kernel_id);

// Whether the kernel's results have the same bits on every run; make_plan() asks for no determinism
// from one whose have not.
bool is_deterministic(std::string const& kernel_id);

// Whether the kernel takes a plan with this sm_count_limit. "", which is the library's choice among
// those that do, does.
bool keeps_sm_limit(std::string const& kernel_id, std::int64_t limit);

// Whether the kernel multiplies grad_output by each corner's values before it adds the corners, for
// the gradients of a point. An infinity in grad_output may then make NaN, the sum of two
// infinities, where the formula, which adds first, has one.
bool multiplies_corners(std::string const& kernel_id);

// The arithmetic of the kernel's forward sums.
command::Arithmetic arithmetic_of(std::string const& kernel_id);

// Whether the kernel caches levels in shared memory ("s1c", "h1c"). That pays where points are
// scattered, which no plan can know: only measurement chooses these kernels.
bool caches_levels(std::string const& kernel_id);

}  // namespace msda::test
