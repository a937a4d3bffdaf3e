// The direct family: what variants.inc names, how a row is laid out, what the kernels of the
// generic backward are handed, and what a plan loads. Host and device read it.
#pragma once

#include "kernels/common/params.h"

namespace msda::direct {

// Names of variants.inc: most channels of a head, and points of every level.
enum Channels : std::int32_t { dany, d8 = 8, d16 = 16, d32 = 32, d64 = 64, d128 = 128, d256 = 256 };
enum Points : std::int32_t { pany = 0, p4 = 4, p8 = 8 };

inline constexpr std::int32_t kThreads = 256;  // of a block
inline constexpr std::int32_t kWarpsPerBlock = kThreads / kWarp;

// The tiles of a level, see generic_backward.cuh.
struct LevelTiles {
  std::int64_t first;  // of those of a head
  std::int64_t across;
  std::int32_t width_bits;  // cells of a tile: 2^width_bits by 2^height_bits
  std::int32_t height_bits;
};

// A head is a (batch item, head) pair; a call works on a run of them at a time.
struct BinParams {
  const LevelTiles* levels;  // [L]
  std::int64_t* places;      // [heads][tiles][chunks] counts, then where points go in the list
  std::int64_t* list;        // [heads][Q K] points, those of one tile after the other
  std::int64_t first_head;
  std::int64_t heads;   // of this run
  std::int64_t points;  // Q K
  std::int64_t tiles;   // of a head
  std::int64_t chunks;  // of a head's points
  std::int64_t chunk_points;
  std::int64_t place_count;  // tiles times chunks
  std::int64_t added_first;  // of the tiles that one launch adds
  std::int64_t added_tiles;
};
inline constexpr int kCountsOfLane = 16;  // at a time
inline constexpr int kPointsAhead = 4;    // of a lane, whose coordinates are loaded at once
inline constexpr int kPointsSummed = 4;   // whose corners are loaded and products summed at once
inline constexpr int kTogether = 8;       // points whose rows of grad_output are loaded at once
inline constexpr int kTurns = 4;          // launches in which tiles are added

inline constexpr std::int32_t kMaxPoints = 512;  // K of the row kernel, where P is not a constant

// Channels of a vec, which one lane loads at once: 16 bytes, or 8 of an 8-bit type.
constexpr std::int32_t channels_of_vec(std::int32_t element_bytes) {
  return element_bytes == 4 ? 4 : 8;
}

// Two rows of 64 bytes are read without a bank conflict only from opposite halves of 128-byte
// lines. Where neighbouring heads do not give that, two neighbouring pixels of one head do.
constexpr bool is_half_line(std::int32_t channels, std::int32_t element_bytes) {
  return channels * element_bytes == 64;
}

// The options choose among the kernels of an instantiation.
struct KernelOptions {
  bool backward = false;
  bool fused = false;
  bool wide = false;  // coordinates in float64
  bool nearest = false;
  bool split = false;  // M is odd, see is_half_line()
};

// The kernels that the calls of a plan start: forward, or the others.
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
