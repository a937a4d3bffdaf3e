// A row of variants.inc as its kernels. Included in CUDA files, which go on with
// MSDA_INSTANTIATE(type, channels, points, revision, sm) for each of their rows.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/direct/direct_rows.cuh"
#include "kernels/direct/generic_points.cuh"
#include "kernels/direct/generic_values.cuh"

namespace msda::direct {

template <ValueType kType, typename Real>
Kernels load_generic(KernelOptions options) {
  Kernels kernels;
  if (!options.backward) {
    kernels.forward[0] = kernels.forward[1] = load_kernel(forward_any<kType, Real>);
    kernels.block_items = kThreads;
    return kernels;
  }
  with_bool(options.fused, [&](auto fused) {
    kernels.of_points = load_kernel(backward_points<kType, Real, fused>);
  });
  kernels.count_tiles = load_kernel(count_tiles<Real>);
  kernels.sum_counts = load_kernel(sum_counts);
  kernels.list_points = load_kernel(list_points<Real>);
  kernels.add_tiles = load_kernel(add_tiles<kType, Real>);
  kernels.store_sums = load_kernel(store_sums<typename ValueTraits<kType>::Sum>);
  return kernels;
}

template <ValueType kType, Channels kMax, Points kPoints>
Kernels load_rows(KernelOptions options) {
  constexpr bool kCanSplit = is_half_line(kMax, sizeof(typename ValueTraits<kType>::Element));
  Kernels kernels;
  with_bool(options.fused, [&](auto fused) {
    with_bool(options.split, [&](auto split) {
      with_bools([&](auto aligned) {
        using Config = RowConfig<kType, kMax, kPoints, fused, split && kCanSplit, aligned>;
        kernels.forward[aligned] = load_kernel(forward_rows<Config>);
        kernels.block_items = Config::kSlots;
      });
    });
  });
  return kernels;
}

template <ValueType kType, Channels kMax, Points kPoints>
Kernels load_kernels(KernelOptions options) {
  if constexpr (kMax != dany) {
    return load_rows<kType, kMax, kPoints>(options);
  } else {
    if constexpr (kType != ValueType::f64) {
      if (!options.wide) return load_generic<kType, float>(options);
    }
    return load_generic<kType, double>(options);
  }
}

}  // namespace msda::direct

#define MSDA_INSTANTIATE(type, channels, points, revision, sm) \
  template msda::direct::Kernels msda::direct::load_kernels<   \
      msda::ValueType::type, msda::direct::channels, msda::direct::points>(KernelOptions);
