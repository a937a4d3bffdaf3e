// The pipeline family: what variants.inc names, how a row is laid out, and what a plan loads. Host
// and device read it.
#pragma once

#include "kernels/common/params.h"

#include <algorithm>

namespace msda::pipeline {

// Names of variants.inc: most channels of a head; stages of a warp's values in shared memory.
enum Channels : std::int32_t { d8 = 8, d16 = 16, d32 = 32, d64 = 64, d128 = 128, d256 = 256 };
enum Stages : std::int32_t { s2 = 2, s3 = 3, s4 = 4 };

inline constexpr std::int32_t kThreads = 128;    // of a block
inline constexpr std::int32_t kMaxPoints = 512;  // K, a limit that reject() keeps to

// How the channels of a row are dealt to lanes.
struct Layout {
  std::int32_t lanes;  // of a slot: they share the channels of a row
  std::int32_t vecs;   // of each lane
};
constexpr Layout layout_of(std::int32_t channels, std::int32_t element_bytes) {
  std::int32_t const vecs = channels * element_bytes / kVecBytes;
  std::int32_t const lanes = std::min(vecs, kWarp);
  return {lanes, vecs / lanes};
}

// Records of a slot that are there at a time: those of the lanes that have just located a point
// each, and of the points before whose values are on their way. A power of two.
constexpr std::int32_t ring_of(std::int32_t lanes, std::int32_t stages) {
  std::int32_t ring = 1;
  while (ring < lanes + stages - 1) ring *= 2;
  return ring;
}

// Bytes of shared memory of a block: sizeof(Storage), which only device code knows.
constexpr std::int64_t shared_bytes_of(Channels channels, Stages stages,
                                       std::int32_t element_bytes) {
  Layout const layout = layout_of(channels, element_bytes);
  std::int32_t const slots = kWarp / layout.lanes;
  std::int32_t const offset =
      layout.lanes == 1 || slots == 1 ? 0 : std::max(16, 128 / layout.lanes);
  std::int64_t const values = std::int64_t{stages} * layout.vecs * 4 * kThreads * kVecBytes;
  std::int64_t const records =
      std::int64_t{kThreads / kWarp} * ring_of(layout.lanes, stages) * (slots * kVecBytes + offset);
  return values + records + 16 * kInlineLevels + kMaxPoints;
}

// The parts of a call that lie at multiples of 16 bytes.
struct Alignment {
  bool values;  // every vec of them: else they are copied element by element
  bool inputs;
  bool output;
};

struct Loaded {
  Kernel<Params, Alignment> rows;
  std::int32_t block_rows = 0;
  std::int32_t shared_bytes = 0;
};

// Loads it onto the current device. Instantiated in CUDA files.
template <ValueType kType, Channels kMax, Stages kStages>
Loaded load_kernels();

}  // namespace msda::pipeline
