// Which levels the blocks of a cluster keep in shared memory, and where.
#pragma once

#include "core/problem.h"
#include "kernels/common/params.h"

#include <array>
#include <cstdint>

namespace msda::cluster {

// What a block has of a kept level; see KeptParams.
struct KeptLevels {
  std::uint32_t levels = 0;                              // bit l for level l
  std::uint32_t split = 0;                               // of them, those whose rows alternate
  std::array<std::int64_t, kInlineLevels> begin{};       // bytes, a multiple of a line
  std::array<std::int64_t, kInlineLevels> row_pixels{};  // from a row to the next one
  std::int64_t bytes = 0;                                // of all
  std::int64_t buffers = 1;                              // that fit

  bool has(std::size_t l) const { return (levels >> l & 1) != 0; }
  bool splits(std::size_t l) const { return (split >> l & 1) != 0; }
};

// As many levels as fit max_bytes, the smallest ones first; of them as many as possible whole, the
// smallest ones first, and the others with their rows spread over the blocks. Without levels where
// not even the smallest one fits.
KeptLevels choose_kept_levels(Problem const& problem, std::int64_t pixel_bytes, std::int64_t size,
                              std::int64_t max_bytes);

// Bytes of a block that keeping the smallest level would take.
std::int64_t least_kept_bytes(Problem const& problem, std::int64_t pixel_bytes, std::int64_t size);

}  // namespace msda::cluster
