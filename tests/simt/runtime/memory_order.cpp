// Fences, atomics, and dependent launches: what orders the memory of threads that meet nowhere.
#include "runtime/model.h"

#include <algorithm>

namespace simt {
namespace {

constexpr std::uint32_t kAtomicsWithoutPause = 256;
constexpr std::size_t kSeenAtomics = 64;

}  // namespace

// After a fence, an atomic operation shows others what came before the fence; before one, what
// atomic operations have shown is there after it.
void fence() {
  Thread& thread = running_thread(Where::current());
  for (const void* const at : thread.seen_atomics) acquire(const_cast<void*>(at));
  OwnWork const work;
  thread.seen_atomics.clear();
  thread.has_fenced = true;
}

void before_atomic(const void* at) {
  Thread& thread = running_thread(Where::current());
  if (thread.has_fenced) release(const_cast<void*>(at));
  if (++thread.spins < kAtomicsWithoutPause) return;
  thread.spins = 0;
  pause();
}

void after_atomic(const void* at) {
  if constexpr (!kSeesOrder) return;
  Thread& thread = running_thread();
  OwnWork const work;
  auto& seen = thread.seen_atomics;
  if (std::ranges::find(seen, at) != seen.end()) return;
  if (seen.size() == kSeenAtomics) seen.erase(seen.begin());
  seen.push_back(at);
}

void launch_dependents() {
  Block& block = *running_thread(Where::current()).own_block;
  if (block.lets_dependents_go) return;
  block.lets_dependents_go = true;
  --block.cluster->grid->ungranting_blocks;
  run->scheduler.note_progress();
}

void wait_for_previous_grid(Where where) {
  Thread& thread = running_thread(where);
  Grid* const previous = thread.own_block->cluster->grid->previous;
  if (previous == nullptr) return;
  if (!previous->has_ended()) {
    OwnWork const work;
    previous->waiters.push_back(&thread);
    wait("griddepcontrol.wait", 0, where);
  }
  acquire(&previous->end_sync);
}

}  // namespace simt
