// The sizes of this family, what its kernel is handed beside the problem, and the kernels of a row
// of variants.inc. Host and device include it.
//
// A *cell* is where points with the same four corners lie. A *tile* is a rectangle of a level's
// pixels, with the cells that have a corner among them: one more each way. A *round* is the points
// of a level that a block has in shared memory at once.
#pragma once

#include "kernels/points/points.h"

namespace msda::small {

using namespace points;  // the engine that computes gradients of points

inline constexpr std::int32_t kThreads = 448;  // leaves a thread 72 registers
inline constexpr std::int32_t kBlocks = 2;     // an SM
inline constexpr std::int32_t kWarps = kThreads / kWarp;
inline constexpr std::int32_t kMaxTileWidth = 512;  // pixels
inline constexpr std::int32_t kCellsOfThread = 8;
inline constexpr std::int32_t kMaxCells = kCellsOfThread * kThreads;  // of a tile
// Sums depend on this: a pixel adds up its points round after round.
inline constexpr std::int32_t kRoundPoints = 4096;
static_assert(kMaxCells < 0xffff && kRoundPoints <= 0xffff, "both are counted in 16 bits");

// The rounds that code is for. For one it has registers left, and takes 5 % less time on dec. For
// two it takes any number, and both of a level at once.
enum class Rounds { one, two_sampled, two_fused, any };

inline constexpr std::int32_t kFewRecords = 16;     // of a cell, that one thread orders
inline constexpr std::int32_t kRecordsOfSlot = 16;  // of a pixel, that one slot adds up
inline constexpr std::int32_t kPointsInFlight = 2;  // that a thread loads
inline constexpr std::int32_t kPartWarps = 8;       // of an SM, at most, whose rows have parts
inline constexpr std::int32_t kLogits = 8;          // of a fused row, that a lane has
inline constexpr std::int32_t kWarpLogits = kWarp * kLogits;
// The records that a tile has of two rounds of fused points, at most: weights of each warp's rows
// lie behind them. Of sampled points it has as many as a round has points.
inline constexpr std::int32_t kMaxFusedRecords = kRoundPoints - kWarps * kWarpLogits / 4;
// Kinds of pixels, in the order of their list: crowded ones, whose records the block adds up; those
// of a warp; those of a slot, of most records to none.
inline constexpr std::int32_t kKinds = kRecordsOfSlot + 3;
static_assert(kKinds <= kWarp);

// The lanes of a row: heads of 32 channels have four, as most models have, wide ones a warp, and
// those of up to 16 two, with which float32 is slower as often as faster.
constexpr std::int32_t row_lanes(std::int64_t head_dim, bool is_f32) {
  if (head_dim <= 2 * kChannelsOfLane && !is_f32) return 2;
  if (head_dim <= 4 * kChannelsOfLane) return 4;
  return head_dim <= 8 * kChannelsOfLane ? 8 : kWarp;
}
// The lanes of a row whose points get gradients.
constexpr std::int32_t point_lanes(std::int32_t lanes) {
  return lanes < kPointsAtOnce ? kPointsAtOnce : lanes;
}

struct TileLevel {
  std::int32_t first_tile;  // of a head's
  std::int32_t tiles_across;
  std::int32_t tile_width;  // pixels
  std::int32_t tile_height;
  std::int32_t rounds;  // that a tile has at once: 1 or 2
};

// A point of the round that has a corner in the tile.
struct alignas(16) TileRecord {
  std::uint32_t query;  // of two rounds 16 bits, the upper ones are the point's number
  float fx, fy;
  float weight;
};

struct SmallParams {
  PointParams points;
  float* sums;                // [B][S][M][D] between the rounds of a level; null: no level has two
  std::int64_t tile_blocks;   // they come first, then those of points
  std::int32_t heads;         // B M
  std::int32_t round_points;  // at most, a multiple of kWarp
  std::int32_t point_slots;   // of a block of points: whole warps
  std::int32_t part_bits;     // a row has 2^n parts, a slot each, side by side in a warp
  std::int32_t part_points;   // of a part, a multiple of kPointsAtOnce
  bool aligned_result;        // grad_value lies at a multiple of 16 bytes
  bool aligned_sums;          // sums do
  bool staged_in_shared;      // fused: what a row's softmax has of each point
  bool logit_fours;           // every four logits of a row lie at a multiple of their bytes
  // Offsets and references are of F32, at multiples of their bytes, and a warp has a row's logits
  // at once.
  bool plain_fused;
  TileLevel levels[kInlineLevels];
};

// Shared memory of a block of a tile, in this order: the bounds of cells and sums of warps,
// records, their order, and a bit a record for each warp. Where bits are, cells of points lie
// before, and the list of pixels with sums of warps after. Where records lie, weights of fused
// points lie before.
inline constexpr std::int32_t kBounds = kMaxCells + 4;
inline constexpr std::int64_t kBoundBytes = (kBounds + kWarp + 4) * 4;
static_assert(kBoundBytes % 16 == 0, "records lie at multiples of their bytes");
// The cells of a tile at most: their pixels are listed.
constexpr std::int32_t max_cells(std::int32_t lanes) {
  return lanes == kWarp ? kMaxCells / 2 : kMaxCells;
}
// A number of each kind of pixels, their list, and a row of float32 of every other warp.
inline constexpr std::int32_t kKindBytes = (kKinds * 4 + 15) / 16 * 16;
static_assert(kWarps % 2 == 0 && kMaxCells % 16 == 0);
constexpr std::int64_t list_bytes(std::int32_t lanes) {
  return kKindBytes + 2 * max_cells(lanes) + kWarps / 2 * std::int64_t{lanes} * kChannelsOfLane * 4;
}
constexpr std::int64_t tile_bytes(std::int64_t round_points, std::int32_t lanes) {
  std::int64_t const last = 2 * round_points;
  return kBoundBytes + round_points * (std::int64_t{sizeof(TileRecord)} + 2) +
         (last < list_bytes(lanes) ? list_bytes(lanes) : last);
}
static_assert(kWarps * 4 <= kWarp * 2, "a bit a record for each warp takes 2 bytes a record");
inline constexpr std::int64_t kMaxSharedBytes = tile_bytes(kRoundPoints, kWarp);
static_assert(kMaxSharedBytes <= 97 << 10, "every GPU from 8.0 on has as much");
// A lane stages two numbers of each of its points of a row.
constexpr std::int64_t staged_bytes(std::int64_t groups) { return groups * kThreads * 8; }
static_assert(staged_bytes(kStagedPoints) <= kMaxSharedBytes, "staged points fit, too");

struct Kernels {
  EngineKernels engine;
  Kernel<Params, SmallParams> gradients[2];  // by whether every row can be loaded in vectors
};

// Loads them onto the current device, for a problem of these rounds. Instantiated in CUDA files.
template <ValueType kType>
Kernels load_kernels(std::int64_t head_dim, Rounds rounds);

}  // namespace msda::small
