// The forward computation of the SIMD family, dispatched to the best instruction set at run time.
#pragma once

#include "cpu/simd/simd_tables.h"
#include "registry.h"

namespace msda::simd {

void run_forward(Launch const& launch, Tables const& tables);

}  // namespace msda::simd
