// Kernels of the CPU call these where all results are 0.
#pragma once

#include "core/call.h"
#include "core/problem.h"

namespace msda {

void zero_output(Problem const& problem, Call const& call);
// All gradients that the call asks for.
void zero_gradients(Problem const& problem, Call const& call);

}  // namespace msda
