// One row of variants.inc as its kernels. Included in a CUDA file, which goes on with
// MSDA_INSTANTIATE(type, channels, points, spread, sizes, revision, sm) for each of its rows.
#pragma once

#include "kernels/cluster/cluster_rows.cuh"
#include "kernels/common/choose.h"
#include "kernels/common/clusters.h"
#include "kernels/common/launch.h"

namespace msda::cluster {

// Calls fn with the ClusterConfig for what is known at run time.
template <ValueType kType, Channels kMax, Points kPoints, Spread kSpread, class Fn>
void with_config(KernelOptions const& options, bool is_aligned, Fn fn) {
  using rows::RowsKind;
  // One head of fp16 sums and clusters of two: what pays. All else is told at run time.
  if constexpr (kMax == rows::d32 && kPoints > 0) {
    if (options.is_one && options.is_pair && options.f32_inputs && is_aligned) {
      return fn(ClusterConfig<ClusterKind{RowsKind{kType, kMax, kPoints, kSpread, false, false,
                                                   true, rows::heads_1, rows::inputs_f32},
                                          true}>());
    }
  }
  constexpr bool kCanGroup =
      rows::heads_of_line(kMax, sizeof(typename ValueTraits<kType>::Element)) > 1;
  with_bool(is_aligned, [&](auto aligned) {
    with_bool(options.grouped, [&](auto grouped) {
      fn(ClusterConfig<ClusterKind{
             RowsKind{kType, kMax, kPoints, kSpread, false, grouped && kCanGroup, aligned,
                      rows::heads_any, rows::inputs_any},
             false}>());
    });
  });
}

template <ValueType kType, Channels kMax, Points kPoints, Spread kSpread>
Kernels load_kernels(KernelOptions options) {
  Kernels kernels;
  // The most that any plan asks for: what a kernel may ask for is a property of the process.
  std::int64_t const max_shared_bytes = max_cached_bytes(kPoints) + rows::kLineBytes;
  for (bool const aligned : {false, true}) {
    for (bool const f32_inputs : {false, true}) {
      options.f32_inputs = f32_inputs;
      with_config<kType, kMax, kPoints, kSpread>(options, aligned, [&](auto config) {
        auto* const kernel = cluster_rows<decltype(config)>;
        kernels.rows[aligned][f32_inputs] = load_kernel(kernel, max_shared_bytes);
        kernels.max_clusters = max_active_clusters(
            kernel, {.threads = kThreads,
                     .shared_bytes = static_cast<std::size_t>(options.shared_bytes),
                     .cluster_blocks = options.size});
      });
    }
  }
  return kernels;
}

}  // namespace msda::cluster

#define MSDA_INSTANTIATE(type, channels, points, spread, sizes, revision, sm)               \
  template msda::cluster::Kernels msda::cluster::load_kernels<                              \
      msda::ValueType::type, msda::rows::channels, msda::rows::points, msda::rows::spread>( \
      msda::cluster::KernelOptions);
