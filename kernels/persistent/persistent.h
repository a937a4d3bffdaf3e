// What persistent.cpp asks of an instantiation.
#pragma once

#include "kernels/common/elements.h"
#include "kernels/common/params.h"
#include "kernels/persistent/config.h"

#include <cuda_runtime_api.h>

namespace msda::persistent {

// n / divisor for n < 2^31 by a multiplication.
struct Divider {
  std::uint32_t divisor;
  std::uint32_t multiplier;  // ceil(2^(31 + shift) / divisor)
  std::uint32_t shift;       // ceil(log2(divisor))

#ifdef __CUDACC__
  __device__ __forceinline__ std::uint32_t quotient(std::uint32_t n) const {
    return divisor == 1 ? n : __umulhi(n, multiplier) >> (shift - 1);
  }
#endif
};
Divider divider(std::uint32_t divisor);

// How the rows of a problem are dealt. A job is what a warp does at a time: as many neighbouring
// rows of one batch item as it has slots. A piece is a run of neighbouring jobs; in every round
// each block has one piece, and its warps draw jobs from it in order.
struct Work {
  Divider item_jobs;        // jobs of a batch item
  Divider piece_jobs;       // jobs of a piece
  Divider blocks;           // of the launch
  Divider heads;            // M
  std::uint32_t jobs;       // all
  std::uint32_t rotation;   // by how many blocks a round is turned against the one before
  std::uint32_t item_rows;  // Q M
  bool wide_inputs;         // coordinates and weights can be loaded in vectors
  bool aligned_output;      // and output stored so
  std::uint32_t row_bytes[kInlineLevels];  // of each level: from a pixel to the one below
  std::uint32_t pixel_bytes;               // to the one on the right
  const std::int32_t* order;               // [Q] queries in the order of their visits, or null
};

struct How {
  bool fused = false;
  bool split = false;    // M is odd, see is_half_line()
  bool aligned = false;  // pieces of value lie at multiples of 16 bytes
};

// An instantiation: a row of variants.inc.
struct Instance {
  // The kernels that launch() may start, aligned or not, onto the current device.
  void (*load)(How);
  void (*launch)(Params const&, Work const&, How, cudaStream_t);
};

// Each is specialised in a CUDA file of its own.
template <ValueType kType, Channels kMost, Points kPoints>
Instance instance();

}  // namespace msda::persistent
