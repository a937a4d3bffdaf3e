// The family's model: the rows of variants.inc, which problems they take and what they cost. It
// needs no device code.
#pragma once

#include "core/family.h"
#include "kernels/common/plan.h"
#include "kernels/rows/plan.h"
#include "kernels/tma/tma.h"

#include <cstdint>

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

extern const FamilyModel kModel;

// kNone, or the rule of tensor maps that the values break.
Reason reject_maps(Problem const& problem);

// ---- what a plan of a variant has

std::int32_t pixel_bytes(Problem const& problem);
std::int32_t lanes_for(Entry const& entry, Problem const& problem);
// Rows of a unit of windows: one a slot of the consumer warps.
std::int64_t rows_of_unit(Entry const& entry, Problem const& problem);
std::int64_t box_shared_bytes(Entry const& entry, Problem const& problem);

// Columns and rows of a level that a copy brings.
struct Box {
  std::int32_t columns = 0;
  std::int32_t rows = 0;
};

// A block's shared memory is dealt to stages and records.
struct WindowMemory {
  std::int32_t stages = 0;
  std::int64_t stage_bytes = 0;   // of each, whole lines
  std::int64_t shared_bytes = 0;  // all
};

// The memory of windows on a device; stage_bytes is not positive where a block has too little.
WindowMemory window_memory(std::int32_t lanes, std::int32_t producers, std::int32_t stages,
                           Device const& device);

// Bytes of the smallest window that is worth having.
std::int64_t min_stage_bytes(Problem const& problem);

// Chooses the window of each level that has points, as large as a stage holds and no larger than
// the points need.
void choose_windows(Problem const& problem, rows::QueryTiles const& tiles, std::int64_t stage_bytes,
                    Box (&windows)[kInlineLevels]);
WindowMemory memory_of(Entry const& entry, Problem const& problem, Device const& device);

}  // namespace msda::tma
