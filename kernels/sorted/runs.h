// What a call keeps in its workspace, and how many heads and queries it works on at a time so that
// this fits. A head's sums and a query's gradients have the same bits in every run.
#pragma once

#include "core/arena.h"
#include "core/device.h"
#include "core/problem.h"
#include "kernels/sorted/sorted.h"
#include "kernels/sorted/tiles.h"

#include <cstdint>

namespace msda::sorted {

struct Runs {
  std::int64_t heads;    // of B M at a time, for the gradient of the values
  std::int64_t queries;  // of B Q at a time, for the gradients of the points
};
Runs make_runs(Problem const& problem, Tiling const& tiling, Bins const& bins,
               Device const& device);

// The arrays of ValueParams or of PointParams that lie in the workspace. Bytes of a point: 16 for
// its record, 4 fused, 2.2 for sums of pieces at most, and of segments 10 a tile and chunk.
void take_arrays(ValueParams& params, Problem const& problem, Bins const& bins, Arena& arena);
void take_arrays(PointParams& params, Problem const& problem, Arena& arena);

// What the longer of the two takes: they follow each other and share the workspace.
std::byte* take_workspace(Problem const& problem, Tiling const& tiling, Bins const& bins,
                          Runs const& runs, Arena& arena);

// ValueParams and PointParams but for tables and arrays.
ValueParams value_params(Problem const& problem, Tiling const& tiling, Bins const& bins);

}  // namespace msda::sorted
