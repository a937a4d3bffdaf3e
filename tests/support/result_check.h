// Checks of results that tests of several kernels share.
#pragma once

#include "support/random_problem.h"
#include "support/runner.h"

#include <cstdint>
#include <string>

namespace msda::test {

// Compares each result that the kernel computes with the oracle's.
void check_results(TestHandle const& handle, TestProblem const& problem, std::string const& id,
                   std::uint64_t placement_seed);

// Makes two rows of grad_output no numbers in all heads: NaN in that of query 7, infinities of both
// signs in that of query 20.
void spoil_two_rows(TestProblem& problem);

}  // namespace msda::test
