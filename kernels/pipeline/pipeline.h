// What pipeline.cpp asks of an instantiation, a row of variants.inc.
#pragma once

#include "kernels/common/elements.h"
#include "kernels/common/launch.h"
#include "kernels/common/params.h"
#include "kernels/pipeline/pipeline_config.h"

#include <cstdint>

namespace msda::pipeline {

// What lies at multiples of 16 bytes in a call.
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

// Bytes of shared memory of a block: sizeof(PipelineStorage), which only device code knows.
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

}  // namespace msda::pipeline
