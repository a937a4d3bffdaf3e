// What prepare() makes once a plan: the level of every point, a row of zeros for corners outside
// the map, and the functions to run.
#pragma once

#include "core/family.h"
#include "core/problem.h"

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <vector>

namespace msda::simd {

// Points of a row that are located at once; longer rows go block by block.
inline constexpr std::int64_t kPointBlock = 64;

struct Corners;
struct HeadSource;
struct Points;
struct RowSoftmax;
using ReadPoints = void (*)(HeadSource const&, std::int64_t q, std::int64_t first,
                            std::int64_t count, RowSoftmax&, Points&);
using Locate = void (*)(HeadSource const&, std::int64_t q, std::int64_t first, std::int64_t count,
                        Corners&);
using Gather = void (*)(HeadSource const&, std::int64_t first, std::int64_t last);

// Of the level of each point of a block, as arrays that vectors can load.
struct alignas(64) PointLevels {
  float width[kPointBlock] = {};  // pixels; rounded up where float32 does not have the number
  float height[kPointBlock] = {};
  float half_step[kPointBlock] = {};       // 0.5 / P_l: what boxes divide an offset by
  std::int32_t columns[kPointBlock] = {};  // pixels
  std::int32_t rows[kPointBlock] = {};
  std::int64_t row_bytes[kPointBlock] = {};  // from a pixel to the one below
  std::int64_t origin[kPointBlock] = {};     // bytes from the head's first to pixel (0, 0)
};

struct Tables final : Prepared {
  Tables(Problem const& problem, Gather gather_rows, std::pmr::memory_resource* memory);

  std::pmr::vector<PointLevels> levels;  // a block of points each

  bool prefetch = false;         // of values: more of them than a cache that is near holds
  std::int64_t pixel_bytes = 0;  // from a pixel to the one on its right
  bool wide_strides = false;     // some of them needs more than 31 bits

  std::pmr::vector<std::byte> zeros;  // one pixel of a head

  ReadPoints read_points = nullptr;
  ReadPoints read_softmax = nullptr;  // weights alone; fused input only
  Locate locate = nullptr;
  Gather gather = nullptr;
};

}  // namespace msda::simd
