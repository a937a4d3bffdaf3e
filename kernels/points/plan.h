// The planning that all families with gradients of points share.
#pragma once

#include "core/family.h"
#include "kernels/points/points.h"

#include <cstdint>
#include <vector>

namespace msda::points {

// The reasons that do not depend on sizes. takes_overlap: tokens may be pixels of several levels.
Reason reject(Variant const& variant, Problem const& problem, Device const& device,
              bool takes_overlap);

// x and y of every point lie side by side at a multiple of their bytes, as far as strides say.
bool are_pairs(Strides const& strides);

// Whether 32 bits number the elements of the gradients of points.
bool gradients_are_near(Problem const& problem);

std::vector<PointLevel> point_levels(Problem const& problem);  // [K]

}  // namespace msda::points
