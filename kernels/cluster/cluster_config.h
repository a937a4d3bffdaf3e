// What variants.inc instantiates, and sizes of shared memory that host and device share.
#pragma once

#include "kernels/common/elements.h"
#include "kernels/persistent/layout.h"

#include <cstdint>

namespace msda::cluster {

// Channels, points and spread as the family `persistent` has them; h1: fp16 sums of two points.
using persistent::Channels;
using persistent::Points;
using persistent::Spread;

// Blocks of a cluster are a power of two. More than 8 are not portable: the kernel asks for them.
inline constexpr std::int32_t kMaxSize = 16;
inline constexpr std::int32_t kMaxPortableSize = 8;

// Shared memory of a block, all in all: beyond it an SM has 28 KB of L1 left instead of 60.
inline constexpr std::int64_t kMaxBlockBytes = 195 << 10;
inline constexpr std::int32_t kThreads = 448;
inline constexpr std::int32_t kWarps = kThreads / 32;

// Of one warp, whatever the layout: 32 lanes have 8 bytes of two points each, or 16 of one.
inline constexpr std::int32_t kRecordBytes = 512;
// Records, tables of levels and points, barriers. The kernel asserts that they fit.
constexpr std::int64_t declared_bytes(Points points) {
  return kWarps * kRecordBytes + 3 * persistent::kLineBytes + (points > 0 ? 0 : 256);
}
// Of kept levels, which begin at a whole line.
constexpr std::int64_t max_kept_bytes(Points points) {
  return kMaxBlockBytes - declared_bytes(points) - persistent::kLineBytes;
}
// Pixels of a level in one block: a record counts them in 12 bits.
inline constexpr std::int64_t kMaxKeptPixels = 1 << 12;

// Of a block's jobs those that have been fetched: of this tile, of the next one, which fast warps
// have begun, and of the one behind, whose count is cleared.
inline constexpr std::int32_t kFetchedCounts = 3;

}  // namespace msda::cluster
