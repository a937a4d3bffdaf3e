// What direct.cpp asks of an instantiation, a row of variants.inc.
#pragma once

#include "kernels/common/elements.h"
#include "kernels/common/launch.h"
#include "kernels/common/params.h"
#include "kernels/direct/config.h"

#include <cstdint>

namespace msda::direct {

// What chooses among the kernels of an instantiation.
struct KernelOptions {
  bool backward = false;
  bool fused = false;
  bool wide = false;   // coordinates in float64
  bool split = false;  // M is odd, see is_half_line()
};

// Those that the calls of a plan start: forward, or the others.
struct Kernels {
  Kernel<Params> forward[2];     // by whether every tensor is aligned to 16 bytes
  std::int32_t block_items = 0;  // of forward: rows, or elements of the generic kernel
  Kernel<Params> of_points;      // the gradients of coordinates and weights
  // That of the values, in this order.
  Kernel<Params, BinParams> count_tiles;
  Kernel<BinParams> sum_counts;
  Kernel<Params, BinParams> list_points;
  Kernel<Params, BinParams, int> add_tiles;
  Kernel<Params> store_sums;  // where the sums are in the workspace
};

// Loads them onto the current device. Instantiated in CUDA files.
template <ValueType kType, Channels kMax, Points kPoints>
Kernels load_kernels(KernelOptions options);

}  // namespace msda::direct
