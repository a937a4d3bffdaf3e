// Memory without a history: whole pages of zeros, which no thread has used.
#pragma once

#include <cstddef>

namespace simt {

// Ends the process where there is none.
char* map_fresh(std::size_t bytes);
void unmap_fresh(char* memory, std::size_t bytes);

}  // namespace simt
