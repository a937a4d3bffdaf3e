// Cases of the corpus, in each of their types, forward and backward, through every kernel that
// takes them; of these pairs the shard that MSDA_TEST_SHARD asks for.
#pragma once

#include "support/runner.h"
#include "support/tolerance.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace msda::test {

using KernelCheck = std::function<void(TestProblem const& problem, std::string const& kernel_id)>;

// A failing check says which kernel and which case it was.
void for_kernels_and_cases(TestHandle const& handle, std::vector<const char*> const& names,
                           KernelCheck const& check);

// What is expected of a kernel for a result: of a gradient of the points, NaN does for an infinity
// where multiplies_corners().
Expected expected_of(std::string const& kernel_id, Expectations const& expectations, TensorId id);

// Every result of every kernel that takes the problem, against the oracle.
void check_all_kernels(TestHandle const& handle, TestProblem const& problem);

// A small problem that the kernel computes, the first that it takes of some; none where it does not
// do the operation or input of this reference_dim. Its levels are of 2 x 2 pixels and more.
std::optional<ProblemShape> shape_for(TestHandle const& handle, std::string const& id,
                                      msda_operation operation, std::int32_t reference_dim);

// Every subset of the gradients, the empty one too: as far as the kernel's bits are the same on
// every run those of `all`.
void check_gradient_subsets(msda_plan const* plan, TestProblem const& problem,
                            std::string const& kernel_id, RunResult const& all);

// Whether a kernel whose bits differ from run to run left what is expected.
bool is_near(TestProblem const& problem, std::string const& kernel_id, CallBuffers& buffers);

}  // namespace msda::test
