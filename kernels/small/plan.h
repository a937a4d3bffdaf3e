// The variants of this family, the problems that it takes and what they cost, and how the maps of a
// head are cut into tiles.
#pragma once

#include "kernels/common/plan.h"
#include "kernels/small/small.h"

#include <array>

namespace msda::small {

inline constexpr VariantTable kTable({
#define MSDA_VARIANT(type, ...) VariantRow<>{MSDA_VARIANT_OF("small", type, "", __VA_ARGS__)},
#include "rows/small.inc"
#undef MSDA_VARIANT
});

struct Tiling {
  std::array<TileLevel, kInlineLevels> levels{};
  std::int64_t tiles = 0;  // of a head
};
Tiling make_tiling(Problem const& problem, std::int32_t sm_count);

// The blocks of points, as SmallParams has them.
struct PointBlocks {
  std::int32_t part_bits;
  std::int32_t part_points;
  std::int32_t slots;  // of a block
  std::int64_t blocks;
};
PointBlocks point_blocks(Problem const& problem, std::int32_t sm_count);

// The points of a head on the level that has most of them: a block takes them in rounds.
std::int64_t largest_points(Problem const& problem);
inline bool has_one_round(Problem const& problem) {
  return largest_points(problem) <= kRoundPoints;
}
// Whether a tile has two rounds of a level's points at once, unless it turns out to have too many
// records: more than there is room for, or of a pixel and a round more than a slot adds up. Of
// points spread evenly a pixel has up to a quarter of these.
inline bool takes_two_rounds(Problem const& problem, Level const& level) {
  std::int64_t const points = problem.query_count * level.point_count;
  bool const has_few = 4 * points <= level.height * level.width * 2 * (kRecordsOfSlot / 4);
  return points > kRoundPoints && points <= 2 * kRoundPoints && has_few &&
         (!problem.fused() || problem.point_total <= kWarpLogits);
}
Rounds rounds_of(Problem const& problem);

inline std::int32_t row_lanes(Problem const& problem) {
  return row_lanes(problem.head_dim, problem.value_dtype == MSDA_DTYPE_F32);
}
// Fused: the lanes of a row stage its points in shared memory, not in the workspace.
inline bool stages_in_shared(Problem const& problem) {
  return divide_up(problem.point_total, kPointsAtOnce) <= kStagedPoints;
}

// Takes the arrays of SmallParams that lie in the workspace: float32 sums between rounds, where
// grad_value cannot hold them; of fused points 8 bytes for grad_reference, and 8 where rows are too
// long to be staged.
void take_arrays(SmallParams& params, Problem const& problem, Arena& arena);

}  // namespace msda::small
