// What is known of a kernel beyond one launch of it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace simt {

struct SharedVariable {
  std::uint32_t number;
  std::uint32_t offset;     // from the first variable's lowest address
  std::size_t total_bytes;  // of all of the kernel so far, without gaps
};
// The variable that `tag` stands for; a new one is put behind the others and a gap.
SharedVariable variable_of(const void* entry, const void* tag, std::size_t bytes,
                           std::size_t alignment, std::uint32_t gap);

}  // namespace simt
