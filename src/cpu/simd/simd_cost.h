// How long the family takes, predicted from rates measured on one machine (docs/cpu.md).
#pragma once

#include "core/family.h"

#include <iterator>

namespace msda::simd {

#define MSDA_COSTS "cpu/simd/simd_costs.inc"
#include "core/costs.inc"

double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device);

}  // namespace msda::simd
