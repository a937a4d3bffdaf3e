// A row of variants.inc as its kernels. Included in CUDA files, which go on with
// MSDA_INSTANTIATE(type, channels, shape, sums, producers, stages, revision, sm) for each of their
// rows.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/tma/boxes.cuh"
#include "kernels/tma/windows.cuh"

namespace msda::tma {

template <ValueType kType, Channels kMax, Shape kShape, Sums kSums>
Kernels load_for(std::int64_t shared_bytes) {
  using Config = TmaConfig<kType, kMax, kShape, kSums, true>;
  Kernels kernels;
  kernels.lanes = Config::kLanes;
  kernels.rows = load_kernel(sum_rows<TmaConfig<kType, kMax, kShape, kSums, false>>);
  if constexpr (kShape == box) {
    kernels.boxes = load_kernel(sum_boxes<Config>, shared_bytes);
  } else {
    kernels.windows = load_kernel(sum_windows<Config>, shared_bytes);
  }
  return kernels;
}

// Producers and stages are numbers of the launch.
template <ValueType kType, Channels kMax, Shape kShape, Sums kSums, Producers kProducers,
          Stages kStages>
Kernels load_kernels(std::int64_t shared_bytes) {
  // A producer waits for stages that others have filled: it must not be two phases ahead of them.
  static_assert(kShape == box || static_cast<int>(kProducers) <= static_cast<int>(kStages));
  return load_for<kType, kMax, kShape, kSums>(shared_bytes);
}

}  // namespace msda::tma

#define MSDA_INSTANTIATE(type, channels, shape, sums, producers, stages, revision, sm)  \
  template msda::tma::Kernels                                                           \
  msda::tma::load_kernels<msda::ValueType::type, msda::tma::channels, msda::tma::shape, \
                          msda::tma::sums, msda::tma::producers, msda::tma::stages>(std::int64_t);
