// How far computed gradients may be from the oracle's, element by element, from a model of the
// rounding errors of any order of the sums; gradient_bounds.cpp says it term by term.
#pragma once

#include "support/test_problem.h"

namespace msda::test {

struct Precision {
  double u;         // half the distance from 1 to the next number
  double smallest;  // number above zero
  // Whether rounding may take a point to the other side of a pixel line, where the derivative by
  // its coordinate is another.
  bool may_cross_lines;
};

struct GradientBounds {
  Arrays bound;
  // Of grad_coord, grad_offset and grad_reference: how far below and above the oracle's the
  // derivatives on the other side of pixel lines are, which points may be taken to. 0 away from
  // lines.
  Arrays below, above;
};

GradientBounds gradient_bounds(TestProblem const& problem, Precision const& precision);

}  // namespace msda::test
