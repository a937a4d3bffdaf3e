// What persistent.cpp asks of an instantiation, a row of variants.inc.
#pragma once

#include "kernels/common/elements.h"
#include "kernels/common/launch.h"
#include "kernels/common/params.h"
#include "kernels/persistent/layout.h"

#include <array>
#include <cstdint>

namespace msda::persistent {

// n / divisor for n < 2^31, by a multiplication.
struct Divider {
  std::uint32_t divisor;
  std::uint32_t multiplier;  // ceil(2^(31 + shift) / divisor)
  std::uint32_t shift;       // ceil(log2(divisor))

#ifdef __CUDACC__
  __device__ __forceinline__ std::uint32_t quotient(std::uint32_t n) const {
    return __umulhi(n + n, multiplier) >> shift;
  }
#endif
};
Divider divider(std::uint32_t divisor);

// Points are located in units of 2^22 pixels: between() says why.
inline constexpr float kPixel = 0x1p-22f;

// Of the level of a point, or of P points: what locating needs.
struct alignas(16) Place {
  float width;  // in units of 2^22 pixels, as is the height
  float height;
  std::uint32_t row_tokens;  // from a pixel to the one below
  std::uint32_t origin;      // of pixel (0, 0), in vecs
};

// How the rows of a problem are dealt. A job is what a warp does at a time: a few neighbouring
// queries with a group of heads that lie in one line. A tile is a run of neighbouring jobs that a
// block works on: all queries of one group after the other. In every round each block has one tile,
// and its warps fetch jobs from it in order.
struct ScheduleParams {
  Divider group_jobs;    // jobs of one group of heads of a batch item
  Divider groups;        // of a batch item
  Divider tile_jobs;     // of a tile
  std::uint32_t blocks;  // of the launch
  std::uint32_t rounds;
  std::uint32_t jobs;      // all
  std::uint32_t rotation;  // by how many blocks a round is turned against the one before
  std::uint32_t visits;    // Q
  std::uint32_t heads;     // M
  std::uint32_t points;    // K
  std::uint32_t head_dim;
  std::uint64_t item_bytes;  // from the values of a batch item to those of the next
  std::uint32_t head_bytes;
  bool wide_inputs;             // coordinates, references and weights can be loaded in vectors
  bool aligned_output;          // and output stored so
  bool exact_only;              // empty levels, or levels of 2^24 tokens: no fast path
  Place places[kInlineLevels];  // of each level
  // Of each level, in vecs, 0 where there is no other: from a pixel to the one on the right, and to
  // the one below.
  std::uint32_t column_stride[kInlineLevels];
  std::uint32_t row_stride[kInlineLevels];
  std::uint32_t pixel_stride;  // from a token to the next, in vecs
  const std::int32_t* order;   // [Q] queries in the order of their visits, or null
  // Where levels are cached in shared memory: bit l for level l, whose place and row_stride are
  // those there. Tile indices count the jobs of all groups and, before those of each, as many as
  // copying its levels is worth. A block has the indices of one grid range after the other, and of
  // each a tile for every group in it.
  std::uint32_t cached_levels;
  std::uint32_t cached_bytes[kInlineLevels];
  std::uint32_t shared_bytes;  // for all of them
  Divider group_indices;       // tile indices of a group
  std::uint32_t index_count;   // of all groups
  std::uint32_t grid_range;    // tile indices that a block has at a time
};

// What chooses among the kernels of an instantiation.
struct KernelOptions {
  bool fused = false;
  bool grouped = false;  // heads come in whole lines, see layout_of()
  bool aligned = false;  // vecs of value lie at multiples of 16 bytes
  Heads heads = heads_any;
  InputTypes inputs = inputs_any;
};

struct RowsKernel {
  Kernel<Params, ScheduleParams> kernel;
  std::int32_t threads = 0;
  bool caches_levels = false;  // in ScheduleParams::shared_bytes
};
// Those that the calls of a plan start: by `aligned` and `inputs`.
using Kernels = std::array<std::array<RowsKernel, 2>, 2>;

// Loads them onto the current device. Instantiated in CUDA files.
template <ValueType kType, Channels kMax, Points kPoints, Spread kSpread>
Kernels load_kernels(KernelOptions options);

}  // namespace msda::persistent
