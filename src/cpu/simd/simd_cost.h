// How long the family takes, predicted from rates measured on one machine (docs/cpu.md).
#pragma once

#include "core/device.h"
#include "core/problem.h"

namespace msda::simd {

double predicted_us(Problem const& problem, Device const& device);

}  // namespace msda::simd
