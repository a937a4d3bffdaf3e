// The sizes of this family, what its kernels are handed beside the problem, and the kernels of a
// row of variants.inc. Host and device include it.
//
// A *cell* is where points with the same four corners lie: cell (x, y) has the pixels x - 1 and x,
// y - 1 and y, so that a map of W x H pixels has W + 1 by H + 1 cells. A *tile* is a rectangle of
// cells; its pixels are those of its cells, so that neighbouring tiles share pixels. A *head* is a
// (batch item, head) pair; a call works on as many heads, then on as many queries, at a time as its
// workspace holds: a *pass*. A *chunk* is the points of a head that one block bins.
#pragma once

#include "kernels/points/points.h"

namespace msda::sorted {

using namespace points;  // the engine that computes gradients of points

// ---- bin: a block ranks a chunk by tile

inline constexpr std::int32_t kBinThreads = 512;
inline constexpr std::int32_t kBinBlocks = 2;  // an SM
inline constexpr std::int32_t kBinWarps = kBinThreads / kWarp;
inline constexpr std::int32_t kPointsOfThread = 8;  // at most
inline constexpr std::int32_t kChunkPoints = kBinThreads * kPointsOfThread;
static_assert(kChunkPoints <= 0xffff, "a rank in a chunk fits 16 bits");
inline constexpr std::int32_t kTileBits = 10;
inline constexpr std::int32_t kFewTileBits = 8;  // that tell the tiles of most levels apart
inline constexpr std::int32_t kLargestPlainSide = (1 << 23) - 2;  // axis_cell()
inline constexpr std::int32_t kTilesOfThread = (1 << kTileBits) / kBinThreads;
// A block tells so many tiles apart. The counters of one thread are left over: behind the begin of
// the last tile's records lies their end.
inline constexpr std::int32_t kMaxRangeTiles = (1 << kTileBits) - kTilesOfThread;
inline constexpr std::int32_t kListWarps = 8;        // of a block that lists segments
inline constexpr std::int32_t kCountsOfThread = 12;  // at a time
// Shared memory: a chunk's records, sums of warps and one number more, and a tile's counters.
inline constexpr std::int32_t kStagedBytes = kChunkPoints * 16;
inline constexpr std::int32_t kStagedRowBytes = kBinThreads * 8;  // where records are not staged
inline constexpr std::int32_t kWarpSumBytes = (kWarp + 2) * 4;
inline constexpr std::int32_t kTileBytes = kBinWarps * 2;
// Every plan asks for the most: what a kernel may use is a property of the process, and a plan that
// needs less would take it from those that need more.
inline constexpr std::int64_t kMaxBinSharedBytes =
    kStagedBytes + kWarpSumBytes + (1 << kTileBits) * kTileBytes;

// ---- sum: a block adds up a tile's records, a round of them at a time

inline constexpr std::int32_t kSumThreads = 128;
inline constexpr std::int32_t kSumBlocks = 6;  // an SM
inline constexpr std::int32_t kSumWarps = kSumThreads / kWarp;
inline constexpr std::int32_t kMaxTileSide = 8;  // cells
inline constexpr std::int32_t kMaxCells = 64;    // of a tile
inline constexpr std::int32_t kMaxTilePixels = 81;
inline constexpr std::int32_t kRoundOfThread = 7;
inline constexpr std::int32_t kRound = kRoundOfThread * kSumThreads;  // records
inline constexpr std::int32_t kRoundWords = kRound / kWarp;           // of a bit a record
// A slot of lanes adds up a list: records of one cell. Cells with more than kListRecords are cut
// into 2^n lists of more than half as many each.
inline constexpr std::int32_t kListRecords = 32;
inline constexpr std::int32_t kMaxLogLists = 5;
static_assert(kRound <= kListRecords << kMaxLogLists, "2^kMaxLogLists lists hold a round");
inline constexpr std::int32_t kMaxLists =
    (kMaxCells + 2 * kRound / kListRecords + kWarp - 1) / kWarp * kWarp;
// Several warps may add up one cell; the sums of those beyond the first one of each cell lie apart.
// A warp of 8 slots takes more than 8 kListRecords of such a cell.
inline constexpr std::int32_t kExtraSums = 5;
static_assert(kRound < 4 * 8 * kListRecords, "at most 3 warps add up a cell");
inline constexpr std::int32_t kFewRecords = 32;  // a tile of no more is summed record by record
// A level is sparse where its tiles have at most kSparseRecords records on average. There a warp
// sums a tile, unless it has more than kFewOfWarp records: that one is a part of itself.
inline constexpr std::int32_t kSparseRecords = 64;
inline constexpr std::int32_t kFewOfWarp = 96;
inline constexpr std::int32_t kSparseBlocks = 4;   // an SM
inline constexpr std::int32_t kMaxSliceLanes = 4;  // of a slot: channels beyond are other blocks'
inline constexpr std::int32_t kMaxSlice = kMaxSliceLanes * kChannelsOfLane;
// A tile with more records, times the slices of a head's channels, is summed in parts by several
// blocks.
inline constexpr std::int32_t kPartRecords = 8192;

// ---- join and points

inline constexpr std::int32_t kJoinThreads = 256;
inline constexpr std::int64_t kBlocksOfSm = 12;  // that are wanted before blocks iterate
inline constexpr std::int64_t kMaxIterations = 4;
inline constexpr std::int64_t kMaxPairedIterations = 32;
inline constexpr std::int64_t kMinPairedQueries = 8;  // of a batch item

// No block can work with less shared memory: sums need most of it, binning less for 256 tiles.
inline constexpr std::int64_t kMinSharedBytes = 97 << 10;
static_assert(kMaxBinSharedBytes <= kMinSharedBytes, "what binning asks for is there");

// ---- what kernels are handed

struct TileLevel {
  std::int32_t width;  // pixels
  std::int32_t height;
  std::int32_t tile_width;  // cells
  std::int32_t tile_height;
  std::uint32_t by_width;  // ceil(2^32 / tile_width): the upper half of a product is the quotient
  std::uint32_t by_height;
  std::uint32_t by_pixels;  // ceil(2^32 / (tile_width + 1))
  std::int32_t tiles_across;
  std::int32_t first_tile;     // of all levels of a head
  std::int32_t border_pixels;  // of a tile
  std::int64_t first_border;   // of the first tile, among those of a head
  std::int64_t origin;         // token of pixel (0, 0)
  std::int64_t row_tokens;
};

// The tiles of a level, and the blocks that add up their records, of one slice of channels.
struct SumLevel {
  std::int32_t first_tile;
  std::int32_t tiles;
  std::int32_t blocks;
  bool is_sparse;  // a block has kSumWarps tiles, not one
};

// One point in a tile's list. The fractions are exact: positions near a map are multiples of 2^-24.
struct alignas(16) TileRecord {
  std::uint32_t x;  // cell in the tile << 24 | fraction * 2^24
  std::uint32_t y;
  float weight;
  std::uint32_t query;
};

// The records that one chunk has of a tile; they lie side by side in the head's list, which is the
// lists of all chunks one after the other. A record thus has two numbers, which differ by the same
// in all of a segment.
struct alignas(8) Segment {
  std::uint32_t head_less_tile;  // a record's number in the head's list, less that in the tile's
  std::uint32_t end;             // the first of the tile's records behind the segment
};

// The list of a tile's records: its segments, chunk by chunk.
struct alignas(16) TileList {
  std::uint32_t records;
  std::uint32_t segments;
  std::uint32_t parts;       // 0: one block or warp sums the tile
  std::uint32_t first_part;  // of the head's
};

// The gradient of the values of a pass over heads.
struct ValueParams {
  const TileLevel* levels;         // [L]
  const PointLevel* point_levels;  // [K]
  std::uint16_t* begins;           // [heads][chunks][begin_stride] first of a tile's records
  Segment* segments;               // [heads][tiles][chunks] of a tile, in their order
  TileList* lists;                 // [heads][tiles]
  std::uint32_t* part_counts;      // [heads]
  std::int32_t* part_tiles;        // [heads][max_parts] which tile a part is of
  TileRecord* records;             // [heads][Q K], those of a chunk ordered by tile
  float* borders;                  // [heads][border_pixels][D] sums of a tile without parts
  float* part_sums;                // [heads][max_parts][kMaxTilePixels][D]
  std::int64_t first_head;
  std::int64_t border_pixels;  // of a head
  std::int32_t heads;          // of the pass
  std::int32_t points;         // Q K
  std::int32_t level_count;
  std::int32_t tiles;  // of a head
  std::int32_t chunks;
  std::int32_t points_of_thread;  // of a chunk
  std::int32_t tile_ranges;       // each is binned by blocks of its own
  std::int32_t range_tiles;
  std::int32_t range_counters;   // of a warp that bins, a multiple of kTilesOfThread
  std::int32_t begin_stride;     // at least tiles + 1, a multiple of kTilesOfThread
  std::int32_t level_tile_bits;  // that tell the tiles of a level apart, at most kTileBits
  std::int32_t slices;           // of a head's channels
  std::uint32_t by_quads;        // ceil(2^32 / (D / 4))
  std::uint32_t by_chunks;       // as quotient() takes it
  std::uint32_t by_tile_ranges;
  std::uint32_t by_heads;      // of M
  std::uint32_t query_stride;  // from a point to the one kWarp behind it
  std::uint32_t point_stride;
  std::int32_t part_records;
  std::int32_t max_parts;      // of a head
  bool last_tiles_first;       // sums begin with the last tile: it has more records than the first
  bool stages_records;         // as Bins has it
  bool aligned_result;         // grad_value lies at a multiple of 4 elements
  bool coord_pairs;            // x and y of a point lie at a multiple of their bytes
  const SumLevel* sum_levels;  // [L]
  std::int32_t sum_blocks;     // of a head's tiles, of one slice
};

// The gradients of the points of all rows, by paired_point_gradients(). Blocks: [batch items][heads
// or pairs of heads][query ranges][groups of points].
struct PairedParams {
  const PointLevel* point_levels;  // [K]
  float* by_pixel;                 // as in PointParams
  std::uint32_t groups;            // of a row's points, each of which other blocks take
  std::uint32_t query_ranges;      // of a batch item
  std::uint32_t iterations;        // of a block
  std::uint32_t longer_ranges;     // the first ones, of one iteration more
  std::int64_t coord_stride;       // bytes from a query to that of the next iteration
  std::int64_t weight_stride;
  std::int64_t reference_stride;
  std::int64_t grad_stride;         // of grad_output
  std::uint32_t grad_coord_stride;  // elements
  std::uint32_t grad_weight_stride;
  std::uint32_t index_stride;  // points
  bool grad_coord_pairs;       // as in PointParams
};

// ---- kernels

struct KernelOptions {
  std::int32_t head_dim = 0;
  std::int64_t points = 0;  // K
  bool even_heads = false;
  bool same_types = false;  // grad_output has the type of the values
  bool fused = false;
  bool boxes = false;  // fused with references that are boxes
};

// The ways in which point_gradients() loads rows: element by element; in vectors, where 32 bits
// number the elements of the gradients of points; in vectors where, besides, every lane has
// channels, the input is plain, and 32 bits number the bytes from a head's first token to its last.
enum PointRows { kElementRows, kVectorRows, kPlainRows, kPointRows };

// The points that bin_points() takes: any; plain ones; plain ones with offsets of 16 bits.
enum PointInputs { kAnyPoints, kPlainPoints, kNarrowPoints, kPointInputs };

struct Kernels {
  EngineKernels engine;
  Kernel<Params, ValueParams> bin[kPointInputs];
  Kernel<ValueParams> list_segments;
  Kernel<Params, ValueParams> sum[2];         // by whether every row can be loaded in vectors
  Kernel<Params, ValueParams> sum_sparse[2];  // where some level is sparse
  Kernel<Params, ValueParams> join;
  Kernel<Params, PointParams> points[kPointRows];
  std::int32_t point_rows[kPointRows] = {};    // of a block
  std::int32_t group_points[kPointRows] = {};  // of a row, that a slot locates at once
  // For all plain rows, by whether offsets have 16 bits; no handle: there is no such kernel.
  Kernel<Params, PairedParams> paired[2];
  std::int32_t paired_rows = 0;    // of an iteration
  std::int32_t paired_points = 0;  // that a block takes
  std::int64_t sum_shared_bytes = 0;
  std::int64_t sparse_shared_bytes = 0;
};

// Loads them onto the current device. Instantiated in CUDA files.
template <ValueType kType>
Kernels load_kernels(KernelOptions options);

}  // namespace msda::sorted
