// The operator in float64, written down from its definition (the head of include/msda.h) in plain
// loops. It shares no code with the library, and neither is written after the other.
#pragma once

#include "support/test_problem.h"

namespace msda::test {

// The result tensors of the problem's operation. Each comes with the sum of the magnitudes that
// were added up for each element, which is what rounding errors are proportional to.
struct OracleResult {
  Arrays values;
  Arrays magnitudes;
};

OracleResult run_oracle(TestProblem const& problem);

enum class Slope { kOfMap, kOfPixel };

// For each element of output: sum |w| max(W, H) dv, or sum |w| dv, dv the largest difference of
// neighbouring pixels of the point's level, the zeros around it included. What errors of the
// coordinates, or of the shares of pixels, are proportional to.
std::vector<double> output_slopes(TestProblem const& problem, Slope slope);

// 1 for each element of grad_coord, grad_offset and grad_reference that a point so near a pixel
// line takes part in that float32 may see it on the other side, where the derivative is another;
// else 0.
Arrays float32_kinks(TestProblem const& problem);

}  // namespace msda::test
