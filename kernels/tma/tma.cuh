// A row of variants.inc as its kernels. Included in CUDA files, which go on with
// MSDA_INSTANTIATE(type, channels, shape, sums, producers, stages, revision, sm) for each of their
// rows.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/tma/boxes.cuh"
#include "kernels/tma/windows.cuh"

namespace msda::tma {

// Producers and stages are numbers of the launch.
template <ValueType kType, Channels kMax, Shape kShape, Sums kSums, Producers kProducers,
          Stages kStages>
Kernels load_kernels(std::int64_t shared_bytes) {
  static_assert(kShape == box || (kProducers == p1 && static_cast<int>(kStages) == kMaxWindows),
                "one producer warp keeps a window of each level");
  Kernels kernels;
  kernels.rows = load_kernel(sum_rows<TmaConfig<kType, kMax, kShape, kSums, false>>);
  if constexpr (kShape == box) {
    kernels.boxes =
        load_kernel(sum_boxes<TmaConfig<kType, kMax, kShape, kSums, true>>, shared_bytes);
  } else {
    with_bools([&](auto plain) {
      kernels.windows[0][plain] =
          load_kernel(sum_windows<WindowConfig<kType, kSums, 4, plain>>, shared_bytes);
      kernels.windows[1][plain] =
          load_kernel(sum_windows<WindowConfig<kType, kSums, 8, plain>>, shared_bytes);
    });
  }
  return kernels;
}

}  // namespace msda::tma

#define MSDA_INSTANTIATE(type, channels, shape, sums, producers, stages, revision, sm)  \
  template msda::tma::Kernels                                                           \
  msda::tma::load_kernels<msda::ValueType::type, msda::tma::channels, msda::tma::shape, \
                          msda::tma::sums, msda::tma::producers, msda::tma::stages>(std::int64_t);
