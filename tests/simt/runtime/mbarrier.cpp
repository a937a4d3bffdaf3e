#include "runtime/mbarrier.h"

#include "runtime/model.h"
#include "runtime/shared_memory.h"

namespace simt {
namespace {

constexpr std::uint32_t kMaxCount = (1u << 20) - 1;
constexpr std::int64_t kMaxBytes = (1 << 20) - 1;

MBarrier& barrier_at(std::uint32_t address, Where where) {
  Block& block = block_of(running_thread(where), address, where);
  auto const found = block.mbarriers.find(offset_of(address));
  if (found == block.mbarriers.end()) {
    fail(where, "no mbarrier was initialised at shared address %#x", address);
  }
  return found->second;
}

MBarrier& own_barrier_at(std::uint32_t address, Where where) {
  from_own_shared(address, 8, 8, where);
  return barrier_at(address, where);
}

void complete_if_done(MBarrier& barrier) {
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  ++barrier.phase;
  barrier.pending = barrier.count;
  make_ready(barrier.waiters);
}

void arrive(MBarrier& barrier, std::uint32_t address, std::uint32_t count, Where where) {
  release(barrier.sync.at(barrier.phase));
  OwnWork const work;
  if (count == 0 || count > barrier.pending) {
    fail(where, "%u arrive at the mbarrier %#x, whose phase waits for %u of %u", count, address,
         barrier.pending, barrier.count);
  }
  barrier.pending -= count;
  run->scheduler.note_progress();
  complete_if_done(barrier);
}

bool has_completed(MBarrier const& barrier, std::uint32_t parity) {
  return (barrier.phase & 1) != (parity & 1);
}

}  // namespace

void complete_bytes(MBarrier& barrier, std::uint32_t bytes) {
  release(barrier.sync.at(barrier.phase));
  barrier.bytes -= bytes;
  complete_if_done(barrier);
}

void mbarrier_init(std::uint32_t address, std::uint32_t count, Where where) {
  from_own_shared(address, 8, 8, where);
  if (count == 0 || count > kMaxCount) fail(where, "an mbarrier of %u arrivals", count);
  OwnWork const work;
  Block& block = *running_thread().own_block;
  auto const [place, is_new] = block.mbarriers.try_emplace(offset_of(address));
  if (!is_new) fail(where, "the mbarrier %#x is initialised again", address);
  place->second.count = place->second.pending = count;
}

std::uint64_t mbarrier_arrive(std::uint32_t address, std::uint32_t count, Where where) {
  MBarrier& barrier = own_barrier_at(address, where);
  std::uint64_t const token = barrier.phase;
  arrive(barrier, address, count, where);
  return token;
}

void mbarrier_expect(std::uint32_t address, std::uint32_t bytes, Where where) {
  MBarrier& barrier = barrier_at(address, where);
  barrier.bytes += bytes;
  if (barrier.bytes > kMaxBytes) {
    fail(where, "the mbarrier %#x expects %lld bytes; at most %lld are allowed", address,
         static_cast<long long>(barrier.bytes), static_cast<long long>(kMaxBytes));
  }
}

void mbarrier_wait_parity(std::uint32_t address, std::uint32_t parity, Where where) {
  MBarrier& barrier = own_barrier_at(address, where);
  std::uint64_t const phase = barrier.phase;
  bool const is_over = has_completed(barrier, parity);
  if (!is_over) {
    OwnWork const work;
    barrier.waiters.push_back(&running_thread());
    wait("mbarrier.try_wait", address, where);
  }
  acquire(barrier.sync.at(is_over ? phase - 1 : phase));
}

}  // namespace simt
