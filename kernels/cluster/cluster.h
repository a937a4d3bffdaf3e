// The cluster family: the shared memory of a block, what its kernels are handed beside the problem
// and the schedule, and what a plan loads. rows/layout.h has the names of variants.inc. Host and
// device read it.
#pragma once

#include "kernels/rows/layout.h"

#include <array>

namespace msda::cluster {

using namespace rows;  // the engine, of whose kernels the family is one

// Shared memory of a block, all in all: beyond it an SM has 28 KB of L1 left instead of 60.
inline constexpr std::int64_t kMaxBlockBytes = 195 << 10;
inline constexpr std::int32_t kThreads = 448;
inline constexpr std::int32_t kWarps = kThreads / kWarp;

// Records of one warp, whatever the layout: 32 lanes have 8 bytes of two points each, or 16 of
// one.
inline constexpr std::int32_t kRecordBytes = 512;
// Records, places of levels, barriers. The kernel asserts that they fit.
inline constexpr std::int64_t kDeclaredBytes = kWarps * kRecordBytes + 3 * kLineBytes;
// Bytes that cached levels may have; they begin at a whole line.
inline constexpr std::int64_t kMaxCachedBytes = kMaxBlockBytes - kDeclaredBytes - kLineBytes;
// The most pixels of a level in one block: a record counts them in 12 bits.
inline constexpr std::int64_t kMaxCachedPixels = 1 << 12;

// Counts of a block's fetched jobs: those of this tile, of the next one, which fast warps have
// begun, and of the one behind, whose count is cleared.
inline constexpr std::int32_t kFetchedCounts = 3;

// Each of a row's four lanes prepares a stretch of its points (Lane::first_point()), of more than
// four every lane some of each chunk.
constexpr bool has_stretches(Layout const& layout) { return layout.lanes == 4; }
// Points that a lane prepares at a time.
constexpr std::int32_t group_of(Layout const& layout) {
  return has_stretches(layout) ? kMaxGroup : rows::group_of(layout, pany);
}

// The places of levels. A cached level is copied to every block, or its rows alternate between the
// blocks of the cluster: row y is row y / size of block y % size. The schedule's strides and
// origins of cached levels are those in a buffer.
struct CacheParams {
  std::uint32_t size_mask;      // blocks of a cluster - 1
  std::uint32_t size_shift;     // log2 of them
  std::uint32_t cached_levels;  // bit l for level l
  std::uint32_t split_levels;   // of them, those whose rows alternate
  std::uint32_t buffer_bytes;   // one line of 128 bytes after the other
  std::uint32_t buffers;        // 2: a tile's levels are copied while the one before is gathered
  std::uint32_t pixel_bytes;    // of a group of heads, one pixel beside the other
  bool copies_rows;             // pixels of a row lie side by side in memory, too
  std::uint32_t begin[kInlineLevels];       // bytes, in a buffer
  std::uint32_t row_pixels[kInlineLevels];  // from a row to the next one, in a buffer
  // The level of each point, where levels have any number of points. It is not in shared memory: of
  // 195 KB a pair's part of bird's-eye views leaves 7.5.
  std::uint8_t level_of[kMaxPoints];
};

// The options choose among the kernels of an instantiation.
struct KernelOptions {
  bool grouped = false;  // heads come in whole lines
  bool is_one = false;   // one head of as many channels as the row has, packed; no level is narrow
  bool is_pair = false;  // clusters of two
  // Both, with four levels of 4 points, 8 and so on each: the first one is in memory, the rows of
  // the second one alternate, the others are whole in each block.
  bool is_pyramid = false;
  bool f32_inputs = false;
  std::int32_t size = 1;
  std::int64_t shared_bytes = 0;  // of cached levels
};

using RowsKernel = Kernel<Params, ScheduleParams, CacheParams>;

// The kernels that the calls of a plan start: by whether values are aligned, then by whether
// inputs are float32 and can be loaded in vectors.
struct Kernels {
  std::array<std::array<RowsKernel, 2>, 2> rows{};
  std::int32_t max_clusters = 0;  // that the device runs at a time
};

// Loads them onto the current device. Instantiated in CUDA files.
template <ValueType kType, Channels kMax, Points kPoints, Spread kSpread>
Kernels load_kernels(KernelOptions options);

}  // namespace msda::cluster
