// What direct.cpp asks of an instantiation.
#pragma once

#include "kernels/common/elements.h"
#include "kernels/common/params.h"
#include "kernels/direct/config.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace msda::direct {

// Blocks of one launch; the generic kernels walk over what is more in strides of the grid.
inline constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 30;

// What launch() has to know that is not in Params.
struct How {
  bool backward = false;
  bool fused = false;
  bool wide = false;                     // coordinates in float64
  bool split = false;                    // M is odd, see is_half_line()
  bool aligned = false;                  // every tensor to 16 bytes
  std::int64_t max_blocks = kMaxBlocks;  // of the generic kernels: no more SMs have work
};

// An instantiation: a row of variants.inc.
struct Instance {
  // The kernels that launch() may start, aligned or not, onto the current device.
  void (*load)(How);
  void (*launch)(Params const&, How, cudaStream_t);
};

// Each is specialised in a CUDA file of its own.
template <ValueType kType, Channels kMax, Points kPoints>
Instance instance();

}  // namespace msda::direct
