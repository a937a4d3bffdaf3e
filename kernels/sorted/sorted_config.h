// What the kernels of this family and their planning know when compiled; host and device read it.
#pragma once

#include <cstdint>

namespace msda::sorted {

inline constexpr std::int32_t kWarp = 32;
inline constexpr std::int32_t kChannelsOfLane = 8;  // 16 bytes of 16-bit elements

// ---- binning: a block ranks a chunk of one head's points by tile
inline constexpr std::int32_t kBinThreads = 512;
inline constexpr std::int32_t kBinWarps = kBinThreads / kWarp;
inline constexpr std::int32_t kPointsOfThread = 8;  // at most
inline constexpr std::int32_t kChunkPoints = kBinThreads * kPointsOfThread;
inline constexpr std::int32_t kBinBlocks = 2;  // an SM
inline constexpr std::int32_t kTileBits = 10;
inline constexpr std::int32_t kFewTileBits = 8;  // that tell the tiles of most levels apart
inline constexpr std::int32_t kLargestPlainSide = (1 << 23) - 2;  // axis_place()
inline constexpr std::int32_t kTilesOfThread = (1 << kTileBits) / kBinThreads;
// That a block tells apart. The counters of one thread are left over: behind the last tile's begin
// is where its records end.
inline constexpr std::int32_t kMaxWindowTiles = (1 << kTileBits) - kTilesOfThread;
inline constexpr std::int32_t kScanParts = 8;  // of the chunks, which a block adds up side by side
inline constexpr std::int32_t kCountsOfThread = 12;  // at a time
// Bytes of shared memory: of a chunk's records; of sums of warps and one number more; of a tile's
// counters.
inline constexpr std::int32_t kStagedBytes = kChunkPoints * 16;
inline constexpr std::int32_t kWarpSumBytes = (kWarp + 2) * 4;
inline constexpr std::int32_t kTileBytes = kBinWarps * 2;
// Of any plan: what a kernel may ask for is a property of the process, and a plan that needs less
// would take it from those that need more.
inline constexpr std::int64_t kMaxBinSharedBytes =
    kStagedBytes + kWarpSumBytes + (1 << kTileBits) * kTileBytes;
static_assert(kChunkPoints <= 0xffff, "a rank in a chunk fits 16 bits");

// ---- sums: a block adds up a tile's records, as many at a time as fit shared memory
inline constexpr std::int32_t kSumThreads = 128;
inline constexpr std::int32_t kSumBlocks = 6;  // an SM
inline constexpr std::int32_t kSumWarps = kSumThreads / kWarp;
inline constexpr std::int32_t kMaxCells = 64;  // of a tile
inline constexpr std::int32_t kMaxTilePixels = 81;
inline constexpr std::int32_t kMaxTileSide = 8;  // cells
inline constexpr std::int32_t kRoundOfThread = 7;
inline constexpr std::int32_t kRound = kRoundOfThread * kSumThreads;  // records
inline constexpr std::int32_t kRoundWords = kRound / kWarp;           // of a bit a record
// A slot of lanes adds up a list: records of one cell. Cells with more than kListRecords are cut
// into 2^n lists of more than half as many each.
inline constexpr std::int32_t kListRecords = 32;
inline constexpr std::int32_t kMaxLogLists = 5;
static_assert(kRound <= kListRecords << kMaxLogLists);
inline constexpr std::int32_t kMaxLists =
    (kMaxCells + 2 * kRound / kListRecords + kWarp - 1) / kWarp * kWarp;
// Sums of cells that several warps add up: their warps beyond the first of each. A warp of 8 slots
// has a part of a cell of more than 8 kListRecords, of which there are at most 3.
inline constexpr std::int32_t kExtraSums = 5;
static_assert(kRound < 4 * 8 * kListRecords);
// A tile of no more records than this is summed record after record.
inline constexpr std::int32_t kFewRecords = 32;
// Levels whose tiles have no more records than this on average are sparse: a warp sums a tile of
// them, but for one of more than kFewOfWarp, which is a piece.
inline constexpr std::int32_t kSparseRecords = 64;
inline constexpr std::int32_t kFewOfWarp = 96;
inline constexpr std::int32_t kSparseBlocks = 4;  // an SM
// Of grad_output, if its rows are loaded as vectors: what 32 bits count from query to query.
inline constexpr std::int32_t kRowStepBytes = 16;
inline constexpr std::int32_t kMaxSliceLanes = 4;  // of a slot: channels beyond are other blocks'
inline constexpr std::int32_t kMaxSlice = kMaxSliceLanes * kChannelsOfLane;

// A tile with more records than this, times the slices of a head's channels, is summed in pieces
// by several blocks.
inline constexpr std::int32_t kPieceRecords = 8192;

// ---- gradients of the points
inline constexpr std::int32_t kPointThreads = 256;
inline constexpr std::int32_t kPointBlocks = 2;  // an SM
inline constexpr std::int32_t kMaxHeadDim = kWarp * kChannelsOfLane;
inline constexpr std::int64_t kBlocksOfSm = 12;  // that are wanted, before blocks take more rows
inline constexpr std::int64_t kMaxRoundsOfBlock = 4;  // of as many rows as its slots
inline constexpr std::int64_t kMaxPairedRounds = 32;
inline constexpr std::int64_t kLeastPairedQueries = 8;  // of a batch item
inline constexpr std::int32_t kTogether = 4;  // points of a row whose products are reduced at once

inline constexpr std::int32_t kSmallThreads = 256;  // of the kernels that take little time
inline constexpr std::int32_t kSoftmaxLanes = 8;    // of a row

// Of shared memory, without which no block can work: sums need most of it (sum_tiles.cuh), binning
// less for 256 tiles.
inline constexpr std::int64_t kLeastSharedBytes = 97 << 10;
static_assert(kMaxBinSharedBytes <= kLeastSharedBytes);

}  // namespace msda::sorted
