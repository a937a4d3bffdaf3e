// The kernels of a row of variants.inc. CUDA files include it and go on with
// MSDA_INSTANTIATE(type, revision, sm) for each of their rows.
#pragma once

#include "kernels/common/choose.h"
#include "kernels/common/launch.h"
#include "kernels/points/fused.cuh"
#include "kernels/sorted/bin.cuh"
#include "kernels/sorted/join.cuh"
#include "kernels/sorted/points.cuh"
#include "kernels/sorted/sorted.h"
#include "kernels/sorted/sparse_tiles.cuh"
#include "kernels/sorted/sum.cuh"

namespace msda::sorted {

template <ValueType kType>
Kernels load_kernels(KernelOptions options) {
  Kernels kernels;
  kernels.fused = {load_kernel(points::softmax_rows), load_kernel(points::finish_fused)};
  kernels.list_segments = load_kernel(list_segments);
  kernels.join = load_kernel(join_edges);
  with_bools(
      [&](auto plain) { kernels.bin[plain] = load_kernel(bin_points<plain>, kMaxBinSharedBytes); });
  with_bools([&](auto vectors) {
    points::with_lanes<kMaxSliceLanes>(options.head_dim, [&](auto lanes) {
      using Config = SumConfig<kType, vectors, lanes>;
      kernels.sum_shared_bytes = sizeof(SumStorage<Config>);
      kernels.sparse_shared_bytes = sizeof(SparseStorage<Config>);
      kernels.sum[vectors] = load_kernel(sum_tiles<Config>, kernels.sum_shared_bytes);
      kernels.sum_sparse[vectors] =
          load_kernel(sum_sparse_tiles<Config>, kernels.sparse_shared_bytes);
    });
  });
  // Bits do not depend on addresses: types that matrix instructions multiply where rows are vectors
  // are multiplied by them at any address. A product has the same bits wherever in the matrices it
  // lies.
  points::with_lanes<kWarp>(options.head_dim, [&](auto lanes) {
    using Config = points::PointConfig<kType, Loads::vectors, lanes, 4>;
    using OfElements = points::PointConfig<kType, Loads::elements, lanes, 4>;
    using OfAny = points::PointConfig<kType, Loads::any, lanes>;
    auto const set = [&](PointInput input, auto kernel, std::int32_t rows) {
      kernels.points[input] = load_kernel(kernel);
      kernels.point_rows[input] = rows;
    };
    set(kVectorRows, point_gradients<Config>, Config::kSlots);
    if constexpr (Config::kPaired) {
      with_warp_rows(options, [&](auto rows, auto sides) {
        using Paired = points::PointConfig<kType, Loads::vectors, lanes, rows, true, sides>;
        kernels.paired = load_kernel(paired_point_gradients<Paired>);
        kernels.paired_rows = Paired::kSlots;
        kernels.paired_points = Paired::kGroupPoints;
      });
    } else if (points::fills_lanes(options.head_dim)) {
      using Plain = points::PointConfig<kType, Loads::vectors, lanes, 0, true>;
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
