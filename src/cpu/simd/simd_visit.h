// The order in which queries are visited: neighbours in the picture sample neighbouring pixels, so
// that a tile of them shares what the caches hold. The order never changes a result.
#pragma once

#include "core/problem.h"

#include <cstdint>
#include <memory_resource>
#include <vector>

namespace msda::simd {

// [Q]: the query at each place, tile by tile of the grids in query_hw; without them, when there are
// as many queries as pixels, of the levels (an encoder attends from its own pixels). Empty: as they
// come.
std::pmr::vector<std::int32_t> visiting_order(Problem const& problem,
                                              std::pmr::memory_resource* memory);

}  // namespace msda::simd
