// From a problem to the lanes of slots.
#pragma once

#include "kernels/sorted/sorted.h"

#include <type_traits>

namespace msda::sorted {

// Calls fn with the lanes that a slot takes, at most kMost of them, as a constant.
template <int kMost, int kLanes = 1, class Fn>
void with_lanes(std::int32_t head_dim, Fn fn) {
  if constexpr (kLanes < kMost) {
    if (head_dim > kLanes * kChannelsOfLane) return with_lanes<kMost, 2 * kLanes>(head_dim, fn);
  }
  fn(std::integral_constant<int, kLanes>());
}

// Calls fn with the rows that a warp takes of those that share one, as few as leave no more lanes
// without a point, and with whether groups of lanes take sides, as constants. Of an even number of
// heads a warp takes two without.
template <int kRows = 1, class Fn>
void with_warp_rows(KernelOptions const& options, Fn fn) {
  if constexpr (kRows < 4) {
    auto const lanes = [&](std::int64_t rows) {
      std::int64_t const points = kWarp / rows;
      return (options.points + points - 1) / points * points;
    };
    if (lanes(kRows) > lanes(4) || (kRows == 1 && options.even_heads)) {
      return with_warp_rows<2 * kRows>(options, fn);
    }
  }
  using Rows = std::integral_constant<int, kRows>;
  if constexpr (kRows > 1) {
    if (options.even_heads) return fn(Rows(), std::false_type());
  }
  fn(Rows(), std::true_type());
}

}  // namespace msda::sorted
