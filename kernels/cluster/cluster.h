// What cluster.cpp asks of an instantiation, a row of variants.inc, and what its kernels are handed
// beside the problem and the schedule.
#pragma once

#include "kernels/cluster/cluster_config.h"
#include "kernels/common/launch.h"
#include "kernels/common/params.h"
#include "kernels/persistent/persistent.h"

#include <array>
#include <cstdint>

namespace msda::cluster {

using persistent::ScheduleParams;

// Where levels are. A kept level is copied to every block, or its rows alternate between the blocks
// of the cluster: row y is row y / size of block y % size. Of kept levels the schedule's strides
// and origins are those in a buffer.
struct KeptParams {
  std::uint32_t size_mask;     // blocks of a cluster - 1
  std::uint32_t size_shift;    // log2 of them
  std::uint32_t kept_levels;   // bit l for level l
  std::uint32_t split_levels;  // of them, those whose rows alternate
  std::uint32_t buffer_bytes;  // one line of 128 bytes after the other
  std::uint32_t buffers;       // 2: a tile's levels are copied while the one before is gathered
  std::uint32_t pixel_bytes;   // of a group of heads, one pixel beside the other
  bool copies_rows;            // pixels of a row lie side by side in memory, too
  std::uint32_t begin[kInlineLevels];       // bytes, in a buffer
  std::uint32_t row_pixels[kInlineLevels];  // from a row to the next one, in a buffer
};

// What chooses among the kernels of an instantiation.
struct KernelOptions {
  bool grouped = false;  // heads come in whole lines
  bool is_one = false;   // one head of as many channels as the row has, packed; no level is narrow
  bool is_pair = false;  // clusters of two
  bool f32_inputs = false;
  std::int32_t size = 1;
  std::int64_t shared_bytes = 0;  // of kept levels
};

using RowsKernel = Kernel<Params, ScheduleParams, KeptParams>;

// Those that the calls of a plan start: by whether values are aligned, then by whether inputs are
// float32 and can be loaded in vectors.
struct Kernels {
  std::array<std::array<RowsKernel, 2>, 2> rows{};
  std::int32_t max_clusters = 0;  // that the device runs at a time
};

// Loads them onto the current device. Instantiated in CUDA files.
template <ValueType kType, Channels kMax, Points kPoints, Spread kSpread>
Kernels load_kernels(KernelOptions options);

}  // namespace msda::cluster
