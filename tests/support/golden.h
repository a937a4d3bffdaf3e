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
// The files of tests/golden/nearest, read once: nearest sampling.
std::vector<GoldenCase> const& nearest_golden_cases();

// "", or the first element that is further from the file's than 1e-12 of the array's largest, which
// is what the files, float64 results of another program, are good to. A NaN is further.
std::string difference_from_file(std::vector<double> const& stored,
                                 std::vector<double> const& actual);

}  // namespace msda::test
