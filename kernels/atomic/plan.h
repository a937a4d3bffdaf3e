// Which problems this family takes, what they cost, and the workspace of a call.
#pragma once

#include "core/arena.h"
#include "core/family.h"

#include <cstdint>

namespace msda::atomic {

Reason reject(Variant const& variant, Problem const& problem, Device const& device);
double cost(Variant const& variant, Problem const& problem, Device const& device);

std::int64_t value_elements(Problem const& problem);
std::int64_t row_count(Problem const& problem);

struct Workspace {
  float* sums = nullptr;     // [B][S][M][D], where grad_value is not of float32
  float* weights = nullptr;  // fused: [B][Q][M][K]
  float* raw = nullptr;      // fused: [B][Q][M][K][3]

  Workspace(Problem const& problem, Arena& arena);
};
void workspace(Variant const& variant, Problem const& problem, Device const& device, Arena& arena);

}  // namespace msda::atomic
