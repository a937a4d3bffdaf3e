// Tables that prepare() makes once a plan: the level of every point, a row of zeros for corners
// outside the map, and the functions to run.
#pragma once

#include "core/family.h"
#include "core/problem.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace msda::simd {

// Points of a row that are located at once; longer rows go block by block.
inline constexpr std::int64_t kPointBlock = 64;

// A block of one head's points: [first, first + count) of query q, `first` a multiple of
// kPointBlock; or all of several queries from q on, one row behind the other.
struct PointRange {
  std::int64_t q = 0;
  std::int64_t rows = 1;
  std::int64_t first = 0;
  std::int64_t count = 0;  // of each row

  std::int64_t size() const { return rows * count; }
};

struct Corners;
struct HeadSource;
struct Points;
struct Softmax;
using ReadPoints = void (*)(HeadSource const&, PointRange const&, Softmax&, Points&);
using Gather = void (*)(HeadSource const&, std::int64_t first, std::int64_t last);

// The functions that read points.
struct PointReaders {
  ReadPoints points;
  ReadPoints softmax;  // fused input only: weights alone, whatever the coordinates
  // Fused input only: the weights of a row.
  void (*store_attention)(HeadSource const&, std::int64_t q, std::int64_t element, Softmax&);
  void (*locate)(HeadSource const&, PointRange const&, Softmax&, Corners&);
  // Rows that are read together: more than one where that many of their points, 1, 2, 4 or 8 each,
  // and of their references fill no more than a vector.
  std::int64_t rows = 1;
};

// A table of the levels of a row's points, or of rows that are read together, which vectors load a
// block of kPointBlock at a time. It stores the equal blocks of a level once: its size follows from
// the number of levels, however many points these have.
template <class Block>
class PointBlocks {
 public:
  explicit PointBlocks(std::pmr::memory_resource* memory) : runs_(memory) {}

  // Calls set(block, place in it, level) for the points of a row in order, each of all rows.
  template <class Set>
  void fill(Problem const& problem, std::int64_t rows, Set set) {
    for (Level const& level : problem.levels) {
      std::int64_t const end = level.point_start + level.point_count;
      for (std::int64_t k = level.point_start; k < end; ++k) {
        std::int64_t const i = k % kPointBlock;
        Block& block = block_at(k / kPointBlock);
        for (std::int64_t row = 0; row < rows; ++row) {
          set(block, i + row * problem.point_total, level);
        }
        bool const has_filled_block = i == kPointBlock - 1 && k - level.point_start >= i;
        if (has_filled_block) k += (end - 1 - k) / kPointBlock * kPointBlock;  // equal blocks
      }
    }
  }

  // The block of a row's point k, which is a multiple of kPointBlock.
  Block const& operator[](std::int64_t k) const {
    if (runs_.size() == 1) return runs_.front().block;
    auto const next = std::ranges::upper_bound(runs_, k / kPointBlock, {}, &Run::first);
    return (next - 1)->block;
  }

 private:
  struct Run {
    std::int64_t first;  // of equal blocks
    Block block;
  };

  Block& block_at(std::int64_t number) {
    if (runs_.empty() || runs_.back().first < number) runs_.push_back({number, {}});
    return runs_.back().block;
  }

  std::pmr::vector<Run> runs_;
};

// Numbers of the level of each point of a block.
struct alignas(64) PointLevels {
  float width[kPointBlock] = {};  // pixels; rounded up where float32 does not have the number
  float height[kPointBlock] = {};
  float half_step[kPointBlock] = {};  // 0.5 / P_l: what boxes divide an offset by
  float per_width[kPointBlock] = {};  // 1 / width
  float per_height[kPointBlock] = {};
  std::int32_t reference[kPointBlock] = {};  // place of its level's among the queries' elements
  std::int32_t columns[kPointBlock] = {};    // pixels
  std::int32_t rows[kPointBlock] = {};
  std::int64_t row_bytes[kPointBlock] = {};  // from a pixel to the one below
  std::int64_t origin[kPointBlock] = {};     // bytes from the head's first to pixel (0, 0)
};

struct Tables final : Prepared {
  Tables(Problem const& problem, Gather gather_rows, std::pmr::memory_resource* memory);

  PointBlocks<PointLevels> levels;

  bool prefetch = false;         // of values: more of them than a cache that is near holds
  std::int64_t pixel_bytes = 0;  // from a pixel to the one on its right
  bool wide_strides = false;     // some of them needs more than 31 bits

  std::pmr::vector<std::byte> zeros;  // one pixel of a head

  PointReaders read;
  Gather gather;
};

}  // namespace msda::simd
