// The kernels of a row of variants.inc. CUDA files include it and go on with
// MSDA_INSTANTIATE(type, revision, sm) for each of their rows.
#pragma once

#include "kernels/atomic/add_rows.cuh"
#include "kernels/atomic/atomic.h"
#include "kernels/atomic/logits.cuh"
#include "kernels/common/launch.h"
#include "kernels/points/references.cuh"

namespace msda::atomic {

template <ValueType kType>
Kernels load_kernels(KernelOptions options) {
  using points::Loads;
  using points::PointConfig;
  Kernels kernels;
  kernels.softmax = load_kernel(softmax_rows);
  kernels.logits = load_kernel(logit_gradients);
  kernels.references = load_kernel(points::sum_references);
  kernels.convert = load_kernel(convert_sums);
  points::with_lanes<points::kWarp>(options.head_dim, [&](auto lanes) {
    using Config = PointConfig<kType, Loads::vectors, lanes>;
    kernels.add[1] = load_kernel(add_rows<Config>);
    kernels.add[0] = options.same_types
                         ? load_kernel(add_rows<PointConfig<kType, Loads::elements, lanes>>)
                         : load_kernel(add_rows<PointConfig<kType, Loads::any, lanes>>);
    kernels.slots = Config::kSlots;
    kernels.points = Config::kPoints;
  });
  return kernels;
}

}  // namespace msda::atomic

#define MSDA_INSTANTIATE(type, revision, sm)                                        \
  template msda::atomic::Kernels msda::atomic::load_kernels<msda::ValueType::type>( \
      msda::atomic::KernelOptions);
