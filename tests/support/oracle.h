// The operator in float64, written down from its definition (the head of include/msda.h) in plain
// loops. It shares no code with the library, and with command/ only what describes a problem; its
// number formats are its own.
#pragma once

#include "support/test_problem.h"

namespace msda::test {

// The result tensors of the problem's operation, and of each element of output the sum of the
// magnitudes that were added up for it, which is what rounding errors are proportional to; of fused
// input also with each times how far its logit lies below the row's largest. Those of gradients are
// in gradient_bounds.h.
struct OracleResult {
  Arrays values;
  std::vector<double> output_magnitudes;
  std::vector<double> output_distances;
};

OracleResult run_oracle(TestProblem const& problem);

// Points are moved by the error of float32, for each choice of the side along x and along y. This
// gives 4 results where a point is so near a pixel line that its cell may be another one: pixels
// beside the line weigh nothing then, or next to it. It gives 4 more where a weight is infinite:
// its sample may have another sign where shares of pixels are off by that error and by
// `share_error`.
std::vector<OracleResult> run_oracle_beside(TestProblem const& problem, double share_error);

enum class Slope { kOfMap, kOfPixel };

// For each element of output: sum |w| max(W, H) dv, or sum |w| dv, dv the largest difference of
// neighbouring pixels of the point's level, the zeros around it included. What errors of the
// coordinates, or of the shares of pixels, are proportional to.
std::vector<double> output_slopes(TestProblem const& problem, Slope slope);

}  // namespace msda::test
