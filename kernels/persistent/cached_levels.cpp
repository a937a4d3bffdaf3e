#include "kernels/persistent/cached_levels.h"

#include <algorithm>
#include <numeric>
#include <span>

namespace msda::persistent {

CachedLevels choose_cached_levels(Problem const& problem, std::int64_t pixel_bytes) {
  std::array<std::size_t, kInlineLevels> numbers;
  auto const order = std::span(numbers).first(problem.levels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // From the first pixel to the last one; borders lie between them.
  auto const bytes_of = [&](std::size_t l) {
    Level const& level = problem.levels[l];
    return ((level.height - 1) * level.row_tokens + level.width) * pixel_bytes;
  };
  std::ranges::stable_sort(order, {}, bytes_of);
  CachedLevels cached;
  for (std::size_t const l : order) {
    std::int64_t const lines = (bytes_of(l) + kLineBytes - 1) / kLineBytes;
    if (cached.shared_bytes() + lines * kLineBytes > kMaxCachedBytes) break;
    cached.levels |= std::uint32_t{1} << l;
    cached.begin[l] = cached.end;
    cached.bytes[l] = bytes_of(l);
    cached.end += lines * kLineBytes;
  }
  return cached;
}

}  // namespace msda::persistent
