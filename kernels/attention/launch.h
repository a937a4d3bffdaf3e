// Preparing and launching the kernel of attention.h.
#pragma once

#include "core/device.h"
#include "core/family.h"
#include "core/problem.h"
#include "kernels/attention/attention.h"
#include "kernels/common/launch.h"

namespace msda::attention {

// For the plan `of`, which launches one kernel more than its own.
Writer prepare(Problem const& problem, Device const& device, Prepared& of);

// Nothing is done where the call does not ask for the attention weights.
void launch(Writer const& writer, Params const& params, cudaStream_t stream);

}  // namespace msda::attention
