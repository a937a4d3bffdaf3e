// From the channels of a head to the lanes of its slots.
#pragma once

#include "kernels/sorted/sorted_config.h"

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

}  // namespace msda::sorted
