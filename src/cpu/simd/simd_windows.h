// How the backward computation cuts a problem: the pixels of a level into windows, the points of a
// head into chunks. What is summed in which order follows from this and the points alone, never
// from threads.
#pragma once

#include "core/problem.h"
#include "cpu/simd/simd_tables.h"

#include <cstdint>
#include <memory_resource>
#include <vector>

namespace msda::simd {

// A point lies in a cell: four neighbouring pixels, named by the lower right one. The cells of a
// level of H x W pixels are (H + 1) x (W + 1), those half outside included; seen from a map that
// has a border of one pixel around it, a cell is where its upper left pixel is.
//
// A window is `side` x `side` cells, fewer at the right and lower end, and so (side + 1) x (side +
// 1) pixels with border. A band is a row of windows. Where a problem is small, a band is a single
// window, a strip: `side` rows of cells.

// The windows of a level that has pixels and points.
struct LevelWindows {
  std::int64_t level = 0;         // index in Problem::levels
  std::int64_t first_window = 0;  // of a head
  std::int64_t across = 0;        // windows of a band
  std::int64_t first_band = 0;    // of a head
  std::int64_t band_count = 0;
  std::int64_t first_edge = 0;  // pixel of a head's edges, see Windows::edge_pixels
  bool has_few_points = false;  // fewer than pixels: copies of their values would not pay
};

// One sampling point. Before the sums: where it lies in pixels, its attention weight, and its place
// among the points of its chunk. After them its gradients, by pixels and by weight.
struct Record {
  float x;
  float y;
  float weight;
  std::uint32_t place;
};

// Points of a head that are put in order together: whole rows, or a part of one longer row.
inline constexpr std::int64_t kChunkPoints = 4096;

struct Chunk {
  std::int64_t first_row = 0;  // query
  std::int64_t row_count = 0;
  std::int64_t first_point = 0;  // of each row
  std::int64_t point_count = 0;  // of each row
  std::int64_t first_record = 0;
  std::int64_t record_count() const { return row_count * point_count; }
};

struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

struct Windows {
  Windows(Problem const& problem, std::int64_t lanes, std::pmr::memory_resource* memory);

  Chunk chunk(Problem const& problem, std::int64_t index) const;
  LevelWindows const& level_of(std::int64_t band) const;

  std::pmr::vector<LevelWindows> levels;
  std::pmr::vector<TokenRange> gaps;  // tokens of a batch item that are of no level
  bool takes_values = false;          // of windows, as they are: whole vectors of float32
  bool in_strips = false;
  int shift = 0;         // side = 2^shift
  int column_shift = 0;  // the same of a window's columns
  std::int64_t side = 1;
  std::int64_t window_count = 0;  // of a head
  std::int64_t band_count = 0;    // of a head
  // Pixels of a head that two bands add to: the first row of all bands but the first of a level.
  // None of strips.
  std::int64_t edge_pixels = 0;
  std::int64_t rows_of_chunk = 1;
  std::int64_t chunks_of_row = 1;  // more than 1 where a row is longer than a chunk
  std::int64_t chunk_count = 0;    // of a head
  std::int64_t records = 0;        // points of a head
  std::int64_t padded_dim = 0;     // D, up to a whole vector
  std::int64_t window_pixels = 0;  // of the largest window
  // Strips: whether all that a call touches stays in a cache, and the pixels of the largest strip
  // where sums are formed apart from grad_value; 0: there. Bits are the same.
  bool stays_in_cache = false;
  std::int64_t strip_pixels = 0;
};

// Windows of the level of each point of a block; `rows` are read together.
struct alignas(64) PointWindows {
  std::int32_t columns[kPointBlock] = {};  // of cells; 0 where the level has no windows
  std::int32_t rows[kPointBlock] = {};
  std::int32_t first_window[kPointBlock] = {};
  std::int32_t across[kPointBlock] = {};
};
PointBlocks<PointWindows> point_windows(Problem const& problem, Windows const& windows,
                                        std::int64_t rows, std::pmr::memory_resource* memory);

}  // namespace msda::simd
