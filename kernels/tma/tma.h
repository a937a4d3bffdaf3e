// What tma.cpp asks of an instantiation, a row of variants.inc, and what its kernels are handed
// beside the problem.
#pragma once

#include "kernels/common/elements.h"
#include "kernels/common/launch.h"
#include "kernels/common/params.h"
#include "kernels/tma/tma_config.h"

#include <cuda.h>

#include <cstdint>

namespace msda::tma {

// A map a level, of channels, x, y, head and batch item, without the border.
struct Maps {
  CUtensorMap level[kInlineLevels];
};

// How rows, (b Q + q) M + m, are dealt: consumer warps have jobs of neighbouring rows.
struct BoxParams {
  std::int64_t rows;
  std::int64_t jobs;
  std::int32_t producers;
  std::int32_t stages;  // of a producer
  std::int32_t pixel_bytes;
  std::int32_t box_bytes;  // from box to box in a stage
  bool aligned_output;
};

// Of a level that has points: its window. Columns are even, so that the parity of a column in the
// window is that in the level.
struct WindowLevel {
  std::int32_t level;
  std::int32_t columns;
  std::int32_t rows;
};

// A unit is a tile of queries with one head of one batch item.
struct WindowParams {
  const std::int32_t* order;       // [Q] queries, tile by tile; null: as they come
  const std::int32_t* tile_begin;  // [tiles + 1] places in the order
  std::int32_t tiles;
  std::int32_t units;
  std::int32_t producers;
  std::int32_t stages;
  std::int32_t stage_bytes;
  std::int32_t pixel_bytes;
  std::int32_t level_count;  // of `levels`
  bool aligned_output;
  WindowLevel levels[kInlineLevels];
};

// Rows one by one, where a call's values lie at an address that no tensor map takes.
struct RowParams {
  std::int64_t rows;
  bool aligned_output;
};

// One of the first two is loaded.
struct Kernels {
  Kernel<Maps, Params, BoxParams> boxes;
  Kernel<Maps, Params, WindowParams> windows;
  Kernel<Params, RowParams> rows;
  std::int32_t lanes = 0;  // of a slot
};

// Loads them onto the current device. Instantiated in CUDA files.
template <ValueType kType, Channels kMax, Shape kShape, Sums kSums, Producers kProducers,
          Stages kStages>
Kernels load_kernels(std::int64_t shared_bytes);

}  // namespace msda::tma
