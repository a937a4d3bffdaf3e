// How much there is to do, for predictions of time.
#pragma once

#include "core/problem.h"

namespace msda {

// Sampling points of all rows.
double rows_of(Problem const& problem);  // (batch, query, head)
double points_of(Problem const& problem);
// Bytes that a forward cannot do without: every tensor once.
double forward_bytes(Problem const& problem);

}  // namespace msda
