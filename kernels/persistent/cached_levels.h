// Which levels a block caches in shared memory, and where.
#pragma once

#include "core/problem.h"
#include "kernels/common/params.h"
#include "kernels/persistent/layout.h"

#include <array>
#include <cstdint>

namespace msda::persistent {

struct CachedLevels {
  std::uint32_t levels = 0;                         // bit l for level l
  std::array<std::int64_t, kInlineLevels> begin{};  // of each, a multiple of kLineBytes
  std::array<std::int64_t, kInlineLevels> bytes{};  // of each
  std::int64_t end = 0;                             // of all

  // The kernel begins at a whole line.
  std::int64_t shared_bytes() const { return end + kLineBytes; }
};

// The smallest levels, as many as fit kMaxCachedBytes. A pixel there has `pixel_bytes`.
CachedLevels choose_cached_levels(Problem const& problem, std::int64_t pixel_bytes);

}  // namespace msda::persistent
