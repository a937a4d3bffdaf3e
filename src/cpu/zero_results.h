// Kernels of the CPU call this where all results are 0.
#pragma once

#include "core/call.h"
#include "core/problem.h"

namespace msda {

// All results that the call asks for.
void zero_results(Problem const& problem, Call const& call);

}  // namespace msda
