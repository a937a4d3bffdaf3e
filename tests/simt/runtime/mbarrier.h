// An mbarrier object; what shared memory holds of it is of no account.
#pragma once

#include "runtime/sanitizers.h"

#include <cstdint>
#include <vector>

namespace simt {

struct Thread;

struct MBarrier {
  std::uint32_t count = 0;    // arrivals of each phase
  std::uint32_t pending = 0;  // arrivals that this phase still needs
  std::int64_t bytes = 0;     // of copies that this phase still waits for; early ones are negative
  std::uint64_t phase = 0;
  std::vector<Thread*> waiters;
  PhaseSync sync;
};

// The engine has copied these bytes. Ends the phase where it was waiting for no more.
void complete_bytes(MBarrier& barrier, std::uint32_t bytes);

}  // namespace simt
