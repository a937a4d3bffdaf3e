// The attention weights of fused input, against a softmax in float64.
#pragma once

#include "command/check/accuracy.h"
#include "command/problem/case_part.h"

namespace msda::command {

// The result `attention` of the case, some queries at a time. A weight is as wrong as the
// difference of its logit and the largest, which is rounded, its exponential, and a sum of K of
// them are.
Accuracy check_attention(Case const& input, Array const& attention);

}  // namespace msda::command
