// A row of variants.inc as its kernel. Included in CUDA files, which go on with
// MSDA_INSTANTIATE(type, channels, stages, revision, sm) for each of their rows.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/pipeline/copied_rows.cuh"
#include "kernels/pipeline/pipeline.h"

namespace msda::pipeline {

template <ValueType kType, Channels kMax, Stages kStages>
Loaded load_kernels() {
  using Config = PipelineConfig<kType, kMax, kStages>;
  static_assert(sizeof(Storage<Config>) == shared_bytes_of(kMax, kStages, Config::kElementBytes));
  constexpr std::int32_t kSharedBytes = sizeof(Storage<Config>);
  return {load_kernel(copied_rows<Config>, kSharedBytes), Config::kSlots, kSharedBytes};
}

}  // namespace msda::pipeline

#define MSDA_INSTANTIATE(type, channels, stages, revision, sm)  \
  template msda::pipeline::Loaded msda::pipeline::load_kernels< \
      msda::ValueType::type, msda::pipeline::channels, msda::pipeline::stages>();
