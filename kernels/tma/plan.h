// The family's model: the rows of variants.inc, which problems they take and what they cost. It
// needs no device code.
#pragma once

#include "kernels/rows/plan.h"
#include "kernels/tma/tma.h"

namespace msda::tma {

// The parts of a kernel's id.
struct Entry {
  Channels channels;
  Shape shape;
  Sums sums;
  Producers producers;
  Stages stages;
};
inline constexpr VariantTable kTable({
#define MSDA_VARIANT(type, channels, shape, sums, producers, stages, ...)                     \
  VariantRow<Entry>{                                                                          \
      MSDA_VARIANT_OF("tma", type, "." #channels "." #shape "." #sums "." #producers #stages, \
                      __VA_ARGS__),                                                           \
      {channels, shape, sums, producers, stages}},
#include "rows/tma.inc"
#undef MSDA_VARIANT
});

// kNone, or the rule of tensor maps that the values break.
Reason reject_maps(Problem const& problem);

// ---- what a plan of a variant has

inline std::int32_t pixel_bytes(Problem const& problem) {
  return i32(problem.head_dim) * element_bytes(problem);
}
inline std::int32_t lanes_for(Entry const& entry, Problem const& problem) {
  return lanes_of(entry.channels, element_bytes(problem));
}
inline std::int64_t box_shared_bytes(Entry const& entry, Problem const& problem) {
  return std::int64_t{entry.producers} * entry.stages * box_stage_bytes(pixel_bytes(problem)) +
         kAlignmentSlack;
}

// Columns and rows of a level that a copy brings.
struct Box {
  std::int32_t columns = 0;
  std::int32_t rows = 0;
};

// The points of each level that has some; 0 where they are not alike, or there are none.
std::int64_t points_of_level(Problem const& problem);

// Tables of a plan with windows: each tile's queries, and those of them that are sampled.
struct TileTables {
  std::vector<std::int32_t> queries;  // [tiles][tile_rows()]; behind a tile's last ~its first
  std::vector<std::int32_t> samples;  // [tiles][kSamples]
};
TileTables tables_of(rows::QueryTiles const& tiles, std::int64_t rows);

// The contents of a block's shared memory.
struct WindowMemory {
  Box windows[kInlineLevels];     // of each level that has points
  std::int32_t pixels = 0;        // of all
  std::int64_t shared_bytes = 0;  // all, with records
};

// Windows as large as the tile's points need, or as memory has room for.
WindowMemory window_memory(Problem const& problem, rows::QueryTiles const& tiles, bool fp16_sums,
                           Device const& device);
// Whether a block has room for windows of the least size.
bool windows_fit(Problem const& problem, bool fp16_sums, Device const& device);

}  // namespace msda::tma
