// What prepare() makes once a plan: the level of every point as arrays that vectors can load, a row of
// zeros for corners outside the map, and the order in which queries are visited.
#pragma once

#include "core/problem.h"
#include "cpu/simd/simd_tiles.h"
#include "registry.h"

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace msda::simd {

// Points are located this many at a time; more of them go block by block.
inline constexpr std::int64_t kPointBlock = 64;

struct Tables final : Prepared {
  Tables(Problem const& problem, std::pmr::memory_resource* memory);

  std::int64_t padded_points = 0;          // K rounded up to whole blocks of vectors
  std::pmr::vector<float> width;           // [padded_points] of the point's level, pixels
  std::pmr::vector<float> height;          // [padded_points]
  std::pmr::vector<std::int32_t> columns;  // [padded_points] the same as integers
  std::pmr::vector<std::int32_t> rows;     // [padded_points]
  std::pmr::vector<std::int32_t> origin;   // [padded_points] token of pixel (0, 0)
  std::pmr::vector<std::int32_t> pitch;    // [padded_points] tokens from a pixel row to the next
  std::pmr::vector<std::byte> zeros;       // one pixel of a head, all zero
  Tiles tiles;
  bool prefetch = false;  // the value of a head is larger than a cache that answers at once
};

}  // namespace msda::simd
