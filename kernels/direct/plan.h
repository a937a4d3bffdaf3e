// The family's model: the rows of variants.inc, which problems they take and what they cost. It
// needs no device code.
#pragma once

#include "kernels/common/plan.h"
#include "kernels/direct/direct.h"

namespace msda::direct {

// The parts of a kernel's id.
struct Entry {
  ValueType type;
  Channels channels;
  Points points;
};

inline constexpr VariantTable kTable({
#define MSDA_VARIANT(type, channels, points, ...)                                            \
  VariantRow<Entry>{MSDA_VARIANT_OF("direct", type, "." #channels "." #points, __VA_ARGS__), \
                    {ValueType::type, channels, points}},
#include "rows/direct.inc"
#undef MSDA_VARIANT
});

// Strides of values are whole vecs: 8 bytes of an 8-bit type, else 16.
inline bool values_are_aligned(Problem const& problem) {
  return value_strides_are_multiples(problem, element_bytes(problem) == 1 ? 8 : 16);
}

// ---- how the generic backward orders a head's points. A head is a (batch item, head) pair.

// Tiles that may be added at a time.
struct TileRange {
  std::int64_t begin;
  std::int64_t end;
};

struct Tiles {
  std::vector<LevelTiles> levels;  // [L]
  std::int64_t count = 0;          // of a head
  // All of them, or each level's where levels share tokens: two warps must not add to one pixel.
  std::vector<TileRange> rounds;
};
Tiles make_tiles(Problem const& problem);

// Sizes of the bins, without the arrays and the run of heads.
BinParams bin_params(Problem const& problem, Tiles const& tiles);

// The arrays of a run of `heads` heads: at most 13 bytes a point, and 64 a level.
void take_arrays(BinParams& bins, std::int64_t heads, Arena& arena);

// As many heads at a time as fit `limit` bytes beside `other_bytes`, at least one; 0: no limit.
std::int64_t heads_within(Problem const& problem, BinParams bins, std::int64_t other_bytes,
                          std::size_t limit);

// Backward: how a head's points are ordered, and how many heads at a time.
struct Order {
  Tiles tiles;
  BinParams bins;  // but for the arrays
  std::int64_t run_heads;

  Order(Problem const& problem, Device const& device);
  std::int64_t runs(Problem const& problem) const {
    return divide_up(problem.batch * problem.head_count, run_heads);
  }
};

// Backward, where grad_value cannot hold the sums of the values: they take sum_bytes() of the
// workspace.
bool needs_sums(Problem const& problem);
std::int64_t sum_bytes(Problem const& problem);
std::byte* take_sums(Problem const& problem, Arena& arena);

}  // namespace msda::direct
