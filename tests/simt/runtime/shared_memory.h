// The arenas of blocks, for the rest of the runtime.
#pragma once

#include "runtime/model.h"

namespace simt {

void open_arena(Block& block);
void close_arena(Block& block);

// The block that an address means to a thread.
Block& block_of(Thread const& thread, std::uint32_t address, Where where);
constexpr std::uint32_t kRankShift = 24;
constexpr std::uint32_t offset_of(std::uint32_t address) {
  return address & ((1u << kRankShift) - 1);
}

}  // namespace simt
