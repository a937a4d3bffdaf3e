// What sorted.cpp asks of an instantiation, a row of variants.inc, and what its kernels are handed
// beside the problem.
#pragma once

#include "kernels/common/elements.h"
#include "kernels/common/launch.h"
#include "kernels/common/params.h"
#include "kernels/sorted/sorted_config.h"

#include <bit>
#include <cstdint>

namespace msda::sorted {

// A level and its tiles; see tiles.h.
struct TileLevel {
  std::int32_t width;  // pixels
  std::int32_t height;
  std::int32_t tile_width;  // cells
  std::int32_t tile_height;
  std::uint32_t by_width;  // ceil(2^32 / tile_width): the upper half of a product is the quotient
  std::uint32_t by_height;
  std::uint32_t by_pixels;  // the same of tile_width + 1
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
struct alignas(16) Record {
  std::uint32_t x;  // cell in the tile << 24 | fraction * 2^24
  std::uint32_t y;
  float weight;
  std::uint32_t query;
};

// Records of a tile that lie side by side: those that one chunk has of it.
struct alignas(8) Segment {
  std::uint32_t offset;  // of a record in the head's list, less that in the tile's
  std::uint32_t end;     // of the tile's records: the first that is not of it
};

// The list of a tile's records.
struct alignas(16) TileList {
  std::uint32_t records;
  std::uint32_t segments;
  std::uint32_t pieces;       // 0: the tile is one piece
  std::uint32_t first_piece;  // of the head's
};

// A head is a (batch item, head) pair; a call works on a run of them at a time.
struct ValueParams {
  const TileLevel* levels;             // [L]
  const std::int32_t* level_of_point;  // [K]
  const float* weights;                // fused: [heads][Q][K], by softmax; else null
  std::uint16_t* begins;               // [heads][chunks][begin_stride] first of a tile's records
  Segment* segments;                   // [heads][tiles][chunks] of a tile, in their order
  TileList* lists;                     // [heads][tiles]
  std::uint32_t* piece_counts;         // [heads]
  std::int32_t* piece_tiles;           // [heads][max_pieces] which tile a piece is of
  Record* records;                     // [heads][Q K], those of a chunk ordered by tile
  float* borders;                      // [heads][border_pixels][D] sums of a tile that is one piece
  float* piece_sums;                   // [heads][max_pieces][kMaxTilePixels][D]
  std::int64_t first_head;
  std::int64_t border_pixels;  // of a head
  std::int32_t heads;          // of this run
  std::int32_t points;         // Q K
  std::int32_t level_count;
  std::int32_t tiles;  // of a head
  std::int32_t chunks;
  std::int32_t points_of_thread;  // of a chunk
  std::int32_t windows;
  std::int32_t window_tiles;
  std::int32_t window_counters;  // of a warp that bins, a multiple of kTilesOfThread
  std::int32_t begin_stride;     // at least tiles + 1, the same
  std::int32_t level_tile_bits;  // that tell the tiles of a level apart, at most kTileBits
  std::int32_t slices;           // of a head's channels
  std::uint32_t by_quads;        // ceil(2^32 / (D / 4))
  std::uint32_t by_chunks;       // as quotient() takes it
  std::uint32_t by_windows;
  std::uint32_t by_heads;      // of M
  std::uint32_t step_queries;  // from a point to the one kWarp behind it
  std::uint32_t step_points;
  std::int32_t piece_records;
  std::int32_t max_pieces;     // of a head
  bool last_tiles_first;       // sums begin with the last tile: it has more records than the first
  bool stages_records;         // as Bins has it
  bool aligned_result;         // grad_value, to 4 elements
  bool coord_pairs;            // x and y of a point lie at a multiple of their bytes
  const SumLevel* sum_levels;  // [L]
  std::int32_t sum_blocks;     // of a head's tiles, of one slice
};

// The level of a point, as its gradients need it. Tokens of a head fit 32 bits.
struct alignas(16) PointLevel {
  std::int32_t width;  // pixels; 0: the map is empty
  std::int32_t height;
  std::int32_t origin;      // token of pixel (0, 0)
  std::int32_t row_tokens;  // 0 where there is one row
};

// The gradients by the points of the rows of `queries` queries, beginning with `first_query` of all
// B Q.
struct PointParams {
  const std::int32_t* level_of_point;  // [K]
  const PointLevel* point_levels;      // [K]
  float* weights;                      // fused: [queries][M][K], by softmax; else null
  float* raw;                          // fused: [queries][M][K][3] by x, by y, by weight; else null
  std::int64_t first_query;
  std::int64_t queries;
  std::int64_t rows_of_block;    // a multiple of the block's slots
  std::uint32_t heads_together;  // divides M and the slots of a block
  std::uint32_t step_queries;    // from a row to the one as many as the block's slots behind it
  bool coord_pairs;              // as in ValueParams
  bool grad_coord_pairs;         // the same of the gradients
};

// The same of all rows by paired_points.cuh. Blocks: [batch items][heads or pairs of
// heads][chunks][batches].
struct PairedParams {
  const PointLevel* point_levels;  // [K]
  std::uint32_t batches;           // of a row's points, as many as a warp locates at once
  std::uint32_t chunks;            // of a batch item's queries
  std::uint32_t rounds;            // of a chunk
  std::uint32_t longer_chunks;     // the first ones, of one round more
  std::int64_t coord_step;         // bytes from a query to that of the next round
  std::int64_t weight_step;
  std::int64_t grad_step;   // of grad_output
  std::int64_t index_step;  // points
  bool grad_coord_pairs;    // as in PointParams
};

// What the weights of either are computed for: rows in their order.
struct SoftmaxParams {
  float* weights;  // [rows][K]
  std::int64_t first;
  std::int64_t rows;
  bool by_head;  // rows are [head][query], `first` a head; else [query][head], `first` a query
};

struct KernelOptions {
  std::int32_t head_dim = 0;
  std::int64_t points = 0;  // K
  bool even_heads = false;
  bool same_types = false;  // grad_output has the type of the values
};

// How the rows of `points` are loaded: element by element; in vectors; in vectors where every lane
// has channels, the input is sampled with coordinates that are pairs of F32, and the bytes from a
// head's first token to its last fit 32 bits.
enum PointInput { kElementRows, kVectorRows, kPlainRows, kPointInputs };

// Whether the slots of lanes are full: powers of two, of kChannelsOfLane channels each.
constexpr bool fills_lanes(std::int64_t head_dim) {
  return head_dim % kChannelsOfLane == 0 &&
         std::has_single_bit(static_cast<std::uint64_t>(head_dim / kChannelsOfLane));
}

struct Kernels {
  Kernel<Params, SoftmaxParams> softmax;
  Kernel<Params, ValueParams> place[2];  // by whether points are plain
  Kernel<ValueParams> list_segments;
  // By whether every row can be loaded in vectors; sum_sparse: where a level's blocks have several
  // tiles.
  Kernel<Params, ValueParams> sum[2];
  Kernel<Params, ValueParams> sum_sparse[2];
  Kernel<Params, ValueParams> join;
  Kernel<Params, PointParams> points[kPointInputs];
  Kernel<Params, PointParams> finish;
  std::int32_t point_rows[kPointInputs] = {};  // of a block
  Kernel<Params, PairedParams> paired;         // of plain rows; then there is no other
  std::int32_t paired_rows = 0;                // of a round
  std::int32_t paired_points = 0;              // of a batch; 0: there is none
  std::int64_t sum_shared_bytes = 0;
  std::int64_t sparse_shared_bytes = 0;
};

// Loads them onto the current device. Instantiated in CUDA files.
template <ValueType kType>
Kernels load_kernels(KernelOptions options);

}  // namespace msda::sorted
