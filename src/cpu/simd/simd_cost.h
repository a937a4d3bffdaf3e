// How long the family takes, predicted from rates measured on one machine (docs/cpu.md).
#pragma once

#include "core/device.h"
#include "core/problem.h"

namespace msda::simd {

struct Costs {
#define MSDA_COST(name, value) double name = value;
#include "cpu/simd/simd_costs.inc"
#undef MSDA_COST
};

// Predicted microseconds with these constants; the family's own are those of Costs{}.
double predicted_us(Costs const& costs, Problem const& problem, Device const& device);

}  // namespace msda::simd
