// The work of a problem, for predictions of time.
#pragma once

#include "core/counts.h"
#include "core/problem.h"

#include <cstdint>

namespace msda {

inline double number(std::int64_t n) { return static_cast<double>(n); }

// A row is one (batch, query, head).
double rows_of(Problem const& problem);
// Sampling points of all rows.
double points_of(Problem const& problem);
// Bytes that a forward cannot do without: every tensor once.
double forward_bytes(Problem const& problem);
// A forward's bytes of inputs, output and values; of a level's values no more pixels than its
// points have corners.
Counts counts_of_tensors(Problem const& problem);

}  // namespace msda
