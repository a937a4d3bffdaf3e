// The kernels of a row of variants.inc. CUDA files include it and go on with
// MSDA_INSTANTIATE(type, revision, sm) for each of their rows.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/sorted/bin.cuh"
#include "kernels/sorted/join.cuh"
#include "kernels/sorted/points.cuh"
#include "kernels/sorted/sparse_tiles.cuh"

namespace msda::sorted {

template <ValueType kType>
void load_sums(KernelOptions const& options, Kernels& kernels) {
  kernels.list_segments = load_kernel(list_segments);
  kernels.join = load_kernel(join_edges);
  kernels.bin[kAnyPoints] = load_kernel(bin_points<Input::any, false>, kMaxBinSharedBytes);
  with_plain_input(options, [&](auto input) {
    kernels.bin[kPlainPoints] =
        load_kernel(bin_points<decltype(input)::value, false>, kMaxBinSharedBytes);
    if constexpr (decltype(input)::value == Input::fused) {
      kernels.bin[kNarrowPoints] = load_kernel(bin_points<Input::fused, true>, kMaxBinSharedBytes);
    }
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
}

template <class Config>
void load_point_kernel(PointRows rows, Kernels& kernels) {
  kernels.points[rows] = load_kernel(point_gradients<Config>);
  kernels.point_rows[rows] = Config::kSlots;
  kernels.group_points[rows] = Config::kGroupPoints;
}

// Loads point_gradients() for rows of these lanes. Bits do not depend on addresses: types that
// matrix instructions multiply where rows are vectors are multiplied by them at any address. A
// product has the same bits wherever in the matrices it lies.
template <ValueType kType, int kLanes, int kWarpRows, bool kSides>
void load_any_points(KernelOptions const& options, Kernels& kernels) {
  using Config = PointConfig<kType, Loads::vectors, kLanes, kWarpRows, Input::any, kSides>;
  using OfElements = PointConfig<kType, Loads::elements, kLanes, kWarpRows, Input::any, kSides>;
  using OfAny = PointConfig<kType, Loads::any, kLanes>;
  load_point_kernel<Config>(kVectorRows, kernels);
  if (options.same_types) {
    load_point_kernel<OfElements>(kElementRows, kernels);
  } else {
    load_point_kernel<OfAny>(kElementRows, kernels);
  }
}

template <ValueType kType>
void load_points(KernelOptions const& options, Kernels& kernels) {
  with_lanes<kWarp>(options.head_dim, [&](auto lanes) {
    if constexpr (PointConfig<kType, Loads::vectors, lanes, 4>::kPaired) {
      with_warp_rows(options, [&](auto rows, auto sides) {
        load_any_points<kType, lanes, rows, sides>(options, kernels);
        with_paired_input(options, kWarp / rows, [&](auto input, auto groups, auto boxes) {
          using Paired =
              PointConfig<kType, Loads::vectors, lanes, rows, decltype(input)::value, sides>;
          kernels.paired[0] = load_kernel(paired_point_gradients<Paired, groups, boxes, false>);
          // Rows of two heads, as models have them, are worth the time of compiling one more
          // kernel.
          if constexpr (decltype(input)::value == Input::fused && !Paired::kSides) {
            kernels.paired[1] = load_kernel(paired_point_gradients<Paired, groups, boxes, true>);
          }
          kernels.paired_rows = Paired::kSlots;
          kernels.paired_points = Paired::kGroupPoints * groups;
        });
      });
    } else {
      load_any_points<kType, lanes, 0, false>(options, kernels);
      if (!fills_lanes(options.head_dim)) return;
      with_plain_input(options, [&](auto input) {
        using Plain = PointConfig<kType, Loads::vectors, lanes, 0, decltype(input)::value>;
        load_point_kernel<Plain>(kPlainRows, kernels);
      });
    }
  });
}

template <ValueType kType>
Kernels load_kernels(KernelOptions options) {
  Kernels kernels;
  kernels.engine = load_engine<false>();
  load_sums<kType>(options, kernels);
  load_points<kType>(options, kernels);
  return kernels;
}

}  // namespace msda::sorted

#define MSDA_INSTANTIATE(type, revision, sm) \
  template msda::sorted::Kernels msda::sorted::load_kernels<msda::ValueType::type>(KernelOptions);
