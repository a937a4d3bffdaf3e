// Device memory compared with what it should hold, where copying all of it to the host takes long.
#pragma once

#include <cstddef>
#include <cstdint>

namespace msda::test {

struct PatternDifferences {
  std::uint64_t count = 0;
  std::uint64_t first = 0;  // the first element that differs, where there is one
};

// Compares element i of `data` with element i % period of `pattern`, both in device memory,
// elements of 2 or 4 bytes. Zeros of either sign are equal, all else by its bits. Waits for the
// end; throws std::runtime_error where that fails.
PatternDifferences compare_with_pattern(const void* data, std::size_t elements, const void* pattern,
                                        std::size_t period, std::size_t element_bytes);

}  // namespace msda::test
