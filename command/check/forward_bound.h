// How far an element of the forward result may be from the exact one, as include/msda.h has it, but
// for what fused input adds: checks are that much stricter.
#pragma once

#include "command/problem/case_part.h"

#include <span>
#include <vector>

namespace msda::command {

// The largest magnitude of the finite numbers.
double largest_magnitude(std::span<double const> numbers);
double largest_magnitude(Array const& array);

// The type in which a kernel computes.
enum class Arithmetic {
  kFloat16Sums,  // of two points, then float32
  kFloat32,
  kFloat64
};

// The terms of a bound that do not depend on the element. The result's own rounding to its type is
// not in the bound.
struct ForwardBound {
  ForwardBound(Arithmetic arithmetic, ProblemShape const& shape, double largest_value,
               double largest_scale);

  double operator()(double products, double slopes, double steps) const {
    return product_factor * products + slope_factor * slopes + step_factor * steps + constant;
  }

  double product_factor;  // of sum |w c v|
  double slope_factor;    // of sum |w| max(W, H) dv, dv the channel's largest on the level
  double step_factor;     // of sum |w| dv
  double constant;
};
// The bound of the arithmetic that the problem's types and mode allow.
ForwardBound forward_bound(Case const& input);

// Multiplies [..][M][D] by the scales of the heads, if there are any.
void apply_scale(Case const& part, std::span<double> elements);

// [B][L][M][D]: the largest difference of neighbouring pixels of value. Outside counts as zero, as
// it does for a sample that straddles the map's edge.
std::vector<double> largest_differences(Case const& part);

// Makes bounds of `elements`, [B][Q][M][D], which are sum |w c v|. `part` is the case or a part of
// it, and `differences` are its largest_differences().
void add_bound(ForwardBound const& bound, Case const& part, std::span<double const> differences,
               std::span<double> elements);

}  // namespace msda::command
