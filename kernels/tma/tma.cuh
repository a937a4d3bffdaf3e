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
  Kernels kernels;
  kernels.rows = load_kernel(sum_rows<TmaConfig<kType, kMax, kShape, kSums, false>>);
  if constexpr (kShape == box) {
    kernels.boxes =
        load_kernel(sum_boxes<TmaConfig<kType, kMax, kShape, kSums, true>>, shared_bytes);
  } else {
    kernels.windows[0][0] =
        load_kernel(sum_windows<WindowConfig<kType, kSums, 4, false>>, shared_bytes);
    kernels.windows[0][1] =
        load_kernel(sum_windows<WindowConfig<kType, kSums, 4, true>>, shared_bytes);
    kernels.windows[1][0] =
        load_kernel(sum_windows<WindowConfig<kType, kSums, 8, false>>, shared_bytes);
    kernels.windows[1][1] =
        load_kernel(sum_windows<WindowConfig<kType, kSums, 8, true>>, shared_bytes);
  }
  return kernels;
}

// Producers and stages are numbers of the launch.
template <ValueType kType, Channels kMax, Shape kShape, Sums kSums, Producers kProducers,
          Stages kStages>
Kernels load_kernels(std::int64_t shared_bytes) {
  static_assert(kShape == box || (kProducers == p1 && static_cast<int>(kStages) == kMaxWindows),
                "one producer warp keeps a window of each level");
  return load_for<kType, kMax, kShape, kSums>(shared_bytes);
}

}  // namespace msda::tma

#define MSDA_INSTANTIATE(type, channels, shape, sums, producers, stages, revision, sm)  \
  template msda::tma::Kernels                                                           \
  msda::tma::load_kernels<msda::ValueType::type, msda::tma::channels, msda::tma::shape, \
                          msda::tma::sums, msda::tma::producers, msda::tma::stages>(std::int64_t);
