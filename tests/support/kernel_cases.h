// Cases of the corpus, in each of their types, forward and backward, through every kernel that
// takes them.
#pragma once

#include "support/runner.h"

#include <functional>
#include <string>
#include <vector>

namespace msda::test {

using KernelCheck = std::function<void(TestProblem const& problem, std::string const& kernel_id)>;

// A failing check says which kernel and which case it was.
void for_kernels_and_cases(TestHandle const& handle, std::vector<const char*> const& names,
                           KernelCheck const& check);

// Every subset of the gradients, the empty one too: as far as the kernel's bits are the same on
// every run those of `all`.
void check_gradient_subsets(msda_plan const* plan, TestProblem const& problem,
                            std::string const& kernel_id, RunResult const& all);

// Whether a kernel whose bits differ from run to run left what is expected.
bool is_near(TestProblem const& problem, std::string const& kernel_id, CallBuffers& buffers);

}  // namespace msda::test
