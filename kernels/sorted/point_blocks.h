// How many rows the blocks of points take: neighbouring ones, as many as leave blocks enough for
// all SMs.
#pragma once

#include "kernels/sorted/sorted.h"

#include <cstdint>

namespace msda::sorted {

// That a warp takes: two of an even number.
constexpr std::int64_t heads_together(std::int64_t head_count) {
  return head_count % 2 == 0 ? 2 : 1;
}

// Rounds of a block, of which there are `blocks` with one round each.
std::int64_t rounds_of_block(std::int64_t blocks, std::int64_t most, std::int32_t sm_count);

// All rows at once: their blocks are fewer than a launch may have.
struct PairedLaunch {
  PairedParams params;  // but for point_levels and grad_coord_pairs
  std::int64_t blocks;
};
PairedLaunch paired_launch(Params const& p, Kernels const& kernels, std::int32_t sm_count);

}  // namespace msda::sorted
