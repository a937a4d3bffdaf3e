// A row of variants.inc as its kernels. Included in CUDA files, which go on with
// MSDA_INSTANTIATE(type, revision, sm) for each of their rows.
#pragma once

#include "kernels/atomic/add_rows.cuh"
#include "kernels/atomic/atomic.h"
#include "kernels/sorted/fused_inputs.cuh"
#include "kernels/sorted/lanes.cuh"

namespace msda::atomic {

template <ValueType kType>
Kernels load_kernels(sorted::KernelOptions options) {
  using sorted::Loads;
  Kernels kernels;
  kernels.softmax = load_kernel(sorted::softmax_rows);
  kernels.finish = load_kernel(sorted::finish_fused);
  kernels.round = load_kernel(round_sums);
  sorted::with_lanes<sorted::kWarp>(options.head_dim, [&](auto lanes) {
    using Config = sorted::PointConfig<kType, Loads::vectors, lanes>;
    kernels.add[1] = load_kernel(add_rows<Config>);
    kernels.add[0] = options.same_types
                         ? load_kernel(add_rows<sorted::PointConfig<kType, Loads::elements, lanes>>)
                         : load_kernel(add_rows<sorted::PointConfig<kType, Loads::any, lanes>>);
    kernels.slots = Config::kSlots;
    kernels.points = Config::kPoints;
  });
  return kernels;
}

}  // namespace msda::atomic

#define MSDA_INSTANTIATE(type, revision, sm)                                        \
  template msda::atomic::Kernels msda::atomic::load_kernels<msda::ValueType::type>( \
      msda::sorted::KernelOptions);
