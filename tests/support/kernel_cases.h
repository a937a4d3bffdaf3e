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

// Whether a kernel whose bits differ from run to run left what is expected.
bool is_near(TestProblem const& problem, std::string const& kernel_id, CallBuffers& buffers);

}  // namespace msda::test
