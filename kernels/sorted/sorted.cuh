// A row of variants.inc as its kernels. Included in CUDA files, which go on with
// MSDA_INSTANTIATE(type, revision, sm) for each of their rows.
#pragma once

#include "kernels/common/choose.h"
#include "kernels/sorted/bin_points.cuh"
#include "kernels/sorted/fused_inputs.cuh"
#include "kernels/sorted/join_edges.cuh"
#include "kernels/sorted/lanes.cuh"
#include "kernels/sorted/list_segments.cuh"
#include "kernels/sorted/paired_points.cuh"
#include "kernels/sorted/point_gradients.cuh"
#include "kernels/sorted/sorted.h"
#include "kernels/sorted/sparse_tiles.cuh"
#include "kernels/sorted/sum_tiles.cuh"

namespace msda::sorted {

template <ValueType kType>
Kernels load_kernels(KernelOptions options) {
  Kernels kernels;
  kernels.softmax = load_kernel(softmax_rows);
  kernels.list_segments = load_kernel(list_segments);
  kernels.join = load_kernel(join_edges);
  kernels.finish = load_kernel(finish_fused);
  with_bools([&](auto plain) {
    kernels.place[plain] = load_kernel(place_points<plain>, kMaxBinSharedBytes);
  });
  with_bools([&](auto vectors) {
    with_lanes<kMaxSliceLanes>(options.head_dim, [&](auto lanes) {
      using Config = SumConfig<kType, vectors, lanes>;
      kernels.sum_shared_bytes = sizeof(SumStorage<Config>);
      kernels.sparse_shared_bytes = sizeof(SparseStorage<Config>);
      kernels.sum[vectors] = load_kernel(sum_tiles<Config>, kernels.sum_shared_bytes);
      kernels.sum_sparse[vectors] =
          load_kernel(sum_sparse_tiles<Config>, kernels.sparse_shared_bytes);
    });
  });
  // Bits do not depend on addresses: of types that are multiplied by matrix instructions there, the
  // rows at any address are, too. A product has the same bits wherever in the matrices it lies.
  with_lanes<kWarp>(options.head_dim, [&](auto lanes) {
    using Config = PointConfig<kType, Loads::vectors, lanes, 4>;
    using OfElements = PointConfig<kType, Loads::elements, lanes, 4>;
    using OfAny = PointConfig<kType, Loads::any, lanes>;
    auto const set = [&](PointInput input, auto kernel, std::int32_t rows) {
      kernels.points[input] = load_kernel(kernel);
      kernels.point_rows[input] = rows;
    };
    set(kVectorRows, point_gradients<Config>, Config::kSlots);
    if constexpr (Config::kPaired) {
      with_warp_rows(options, [&](auto rows, auto sides) {
        using Paired = PointConfig<kType, Loads::vectors, lanes, rows, true, sides>;
        kernels.paired = load_kernel(paired_point_gradients<Paired>);
        kernels.paired_rows = Paired::kSlots;
        kernels.paired_points = Paired::kLocated;
      });
    } else if (fills_lanes(options.head_dim)) {
      using Plain = PointConfig<kType, Loads::vectors, lanes, 0, true>;
      set(kPlainRows, point_gradients<Plain>, Plain::kSlots);
    }
    if (options.same_types) {
      set(kElementRows, point_gradients<OfElements>, OfElements::kSlots);
    } else {
      set(kElementRows, point_gradients<OfAny>, OfAny::kSlots);
    }
  });
  return kernels;
}

}  // namespace msda::sorted

#define MSDA_INSTANTIATE(type, revision, sm) \
  template msda::sorted::Kernels msda::sorted::load_kernels<msda::ValueType::type>(KernelOptions);
