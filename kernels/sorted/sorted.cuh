// A row of variants.inc as its kernels. Included in CUDA files, which go on with
// MSDA_INSTANTIATE(type, revision, sm) for each of their rows.
#pragma once

#include "kernels/common/choose.h"
#include "kernels/sorted/bin_points.cuh"
#include "kernels/sorted/fused_inputs.cuh"
#include "kernels/sorted/join_edges.cuh"
#include "kernels/sorted/lanes.cuh"
#include "kernels/sorted/point_gradients.cuh"
#include "kernels/sorted/scan_places.cuh"
#include "kernels/sorted/sorted.h"
#include "kernels/sorted/sum_tiles.cuh"

namespace msda::sorted {

template <ValueType kType>
Kernels load_kernels(KernelOptions options) {
  Kernels kernels;
  kernels.softmax = load_kernel(softmax_rows);
  kernels.count = load_kernel(count_points);
  kernels.scan_chunks = load_kernel(scan_chunks);
  kernels.scan_tiles = load_kernel(scan_tiles);
  kernels.place = load_kernel(place_points, options.max_bin_shared_bytes);
  kernels.join = load_kernel(join_edges);
  kernels.finish = load_kernel(finish_fused);
  with_bools([&](auto vectors) {
    with_lanes<kMaxSliceLanes>(options.head_dim, [&](auto lanes) {
      using Config = SumConfig<kType, vectors, lanes>;
      kernels.sum_shared_bytes = sizeof(SumStorage<Config>);
      kernels.sum[vectors] = load_kernel(sum_tiles<Config>, kernels.sum_shared_bytes);
    });
  });
  // Bits do not depend on addresses: of types that are multiplied by matrix instructions there, the
  // rows at any address are, too.
  with_lanes<kWarp>(options.head_dim, [&](auto lanes) {
    using Config = PointConfig<kType, Loads::vectors, lanes, true>;
    using OfElements = PointConfig<kType, Loads::elements, lanes, true>;
    using OfAny = PointConfig<kType, Loads::any, lanes>;
    kernels.points[1] = load_kernel(point_gradients<Config>);
    kernels.points[0] = options.same_types ? load_kernel(point_gradients<OfElements>)
                                           : load_kernel(point_gradients<OfAny>);
    kernels.point_rows[1] = Config::kSlots;
    kernels.point_rows[0] = options.same_types ? OfElements::kSlots : OfAny::kSlots;
  });
  return kernels;
}

}  // namespace msda::sorted

#define MSDA_INSTANTIATE(type, revision, sm) \
  template msda::sorted::Kernels msda::sorted::load_kernels<msda::ValueType::type>(KernelOptions);
