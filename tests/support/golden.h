// The golden vectors of tests/golden as problems.
#pragma once

#include "support/test_problem.h"

#include <string>
#include <vector>

namespace msda::test {

struct GoldenCase {
  std::string name;
  TestProblem problem;  // everything in float64
  Arrays results;       // output and all gradients
};

// All files, read once.
std::vector<GoldenCase> const& golden_cases();

}  // namespace msda::test
