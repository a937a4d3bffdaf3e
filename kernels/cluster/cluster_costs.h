// What predictions of the cluster family are made of.
#pragma once

#include "core/family.h"

namespace msda::cluster {

struct Costs {
#define MSDA_COST(name, value) double name = value;
#include "kernels/cluster/cluster_costs.inc"
#undef MSDA_COST
};

// Predicted microseconds with these constants; the family's own are those of Costs{}.
double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device);

}  // namespace msda::cluster
