// The number of parts of one size that items make, the last of which may be smaller.
#pragma once

#include <cstdint>

namespace msda {

// Both at least 0, `of_one` more.
constexpr std::int64_t divide_up(std::int64_t items, std::int64_t of_one) {
  return (items + of_one - 1) / of_one;
}

}  // namespace msda
