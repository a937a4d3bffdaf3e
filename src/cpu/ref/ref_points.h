// The points of one (batch, query, head): where they lie, and their corners' weights, in float64.
#pragma once

#include "core/call.h"
#include "core/problem.h"

#include <cstdint>

namespace msda::ref {

// The K points of one (batch, query, head): normalised coordinates and attention weights. A point
// with a coordinate that is NaN contributes nothing, and unless sampling is nearest nor does one
// with an infinite one.
struct Points {
  double* x;       // [K]
  double* y;       // [K]
  double* weight;  // [K], after the softmax when fused
};

void read_points(Problem const& problem, Call const& call, std::int64_t b, std::int64_t q,
                 std::int64_t m, Points const& points);

// The four corners of a sample, in the order (y0, x0), (y0, x0 + 1), (y0 + 1, x0), (y0 + 1, x0 +
// 1).
struct Corners {
  bool finite;  // false: the point contributes nothing at all
  bool any_inside;
  std::int64_t token[4];  // within the value tensor; -1: outside the map, counts as zero
  double weight[4];
  double fx, fy;
};

// Nearest sampling has one corner, the first, of weight 1.
Corners locate(Problem const& problem, Level const& level, double x, double y);

}  // namespace msda::ref
