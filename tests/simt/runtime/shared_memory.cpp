#include "runtime/shared_memory.h"

#include "runtime/fresh_memory.h"
#include "runtime/kernels.h"

#include <cstring>

namespace simt {
namespace {

// From below: what the system keeps for itself, so that no variable has address 0; dynamic shared
// memory, aligned as little as it may be; declared variables with gaps between.
constexpr std::uint32_t kReserved = 0x400;
constexpr std::uint32_t kDynamicBegin = kReserved + 16;
constexpr std::uint32_t kGap = 64;
constexpr std::size_t kArenaBytes = 320 << 10;

// As an index beyond any tensor; as float, half and bfloat16 finite in even blocks, where NaN would
// have kernels take the path that repairs results, and NaN in odd ones, where a weight of zero
// would hide what is finite.
constexpr int kFiniteGarbage = 0x4b, kNanGarbage = 0xff;

// Arenas of ended blocks.
struct SpareArenas {
  ~SpareArenas() {
    for (char* const arena : all) free_arena(arena);
  }
  static void free_arena(char* arena) { unmap_fresh(arena, kArenaBytes); }
  std::vector<char*> all;
};
thread_local SpareArenas spare_arenas;

std::uint32_t round_up(std::size_t x, std::size_t to) {
  return static_cast<std::uint32_t>((x + to - 1) / to * to);
}

void open_variable(Block& block, std::uint32_t offset, std::size_t bytes) {
  unpoison(block.arena + offset, bytes);
  std::memset(block.arena + offset, block.is_odd ? kNanGarbage : kFiniteGarbage, bytes);
}

std::uint32_t first_variable(Launch const& launch) {
  return round_up(kDynamicBegin + launch.dynamic_shared_bytes + kGap, 1024);
}

}  // namespace

void open_arena(Block& block) {
  if (spare_arenas.all.empty()) {
    block.arena = map_fresh(kArenaBytes);
  } else {
    block.arena = spare_arenas.all.back();
    spare_arenas.all.pop_back();
  }
  poison(block.arena, kArenaBytes);
  std::size_t const dynamic = block.cluster->grid->launch.dynamic_shared_bytes;
  if (dynamic > 0) open_variable(block, kDynamicBegin, dynamic);
}

void close_arena(Block& block) {
#if MSDA_SIMT_TSAN
  SpareArenas::free_arena(block.arena);  // new memory has no history
#else
  spare_arenas.all.push_back(block.arena);
#endif
  block.arena = nullptr;
}

void* shared_variable(const void* tag, std::size_t bytes, std::size_t alignment, Where where) {
  Thread& thread = running_thread(where);
  Block& block = *thread.own_block;
  Launch const& launch = block.cluster->grid->launch;
  OwnWork const work;
  SharedVariable const variable = variable_of(launch.kernel->entry, tag, bytes, alignment, kGap);
  std::size_t const total = variable.total_bytes + launch.dynamic_shared_bytes;
  if (total > launch.device.shared_bytes_per_block) {
    fail(where, "%zu bytes of shared memory, %zu of them dynamic; the device has %zu a block",
         total, launch.dynamic_shared_bytes, launch.device.shared_bytes_per_block);
  }
  std::uint32_t const offset = first_variable(launch) + variable.offset;
  if (offset + bytes > kArenaBytes) fail(where, "more shared variables than an arena holds");
  if (block.has_variable.size() <= variable.number) block.has_variable.resize(variable.number + 1);
  if (!block.has_variable[variable.number]) {
    block.has_variable[variable.number] = true;
    open_variable(block, offset, bytes);
  }
  return block.arena + offset;
}

void* dynamic_shared(Where where) { return running_thread(where).own_block->arena + kDynamicBegin; }

std::uint32_t to_shared(const void* generic, Where where) {
  Thread const& thread = running_thread(where);
  auto const at = reinterpret_cast<std::uintptr_t>(generic);
  for (auto const& block : thread.own_block->cluster->blocks) {
    auto const begin = reinterpret_cast<std::uintptr_t>(block->arena);
    if (at < begin || at > begin + kArenaBytes) continue;
    return block->rank << kRankShift | static_cast<std::uint32_t>(at - begin);
  }
  fail(where, "%p is not in shared memory", generic);
}

Block& block_of(Thread const& thread, std::uint32_t address, Where where) {
  Cluster& cluster = *thread.own_block->cluster;
  std::uint32_t const rank = address >> kRankShift;
  if (rank >= cluster.blocks.size()) {
    fail(where, "shared address %#x is of rank %u, the cluster has %zu blocks", address, rank,
         cluster.blocks.size());
  }
  Block& block = *cluster.blocks[rank];
  if (block.alive == 0) {
    fail(where, "shared address %#x is of rank %u of the cluster, a block that has ended", address,
         rank);
  }
  if (&block != thread.own_block && cluster.phase == 0) {
    fail(where,
         "shared address %#x is of rank %u of the cluster, a block that may not have begun: the "
         "cluster has met at no barrier",
         address, rank);
  }
  return block;
}

void* from_shared(std::uint32_t address, std::size_t bytes, std::size_t alignment, Where where) {
  Block const& block = block_of(running_thread(where), address, where);
  std::uint32_t const offset = offset_of(address);
  if (offset % alignment != 0) {
    fail(where, "shared address %#x is not a multiple of %zu", address, alignment);
  }
  if (offset < kReserved || offset + bytes > kArenaBytes ||
      is_poisoned(block.arena + offset, bytes)) {
    fail(where, "%zu bytes at shared address %#x are not in a shared variable", bytes, address);
  }
  return block.arena + offset;
}

void* from_own_shared(std::uint32_t address, std::size_t bytes, std::size_t alignment,
                      Where where) {
  std::uint32_t const rank = running_thread(where).cluster_rank;
  if (address >> kRankShift != rank) {
    fail(where, "shared address %#x is not of the thread's own block, which has rank %u", address,
         rank);
  }
  return from_shared(address, bytes, alignment, where);
}

std::uint32_t cluster_blocks() {
  return static_cast<std::uint32_t>(running_thread().own_block->cluster->blocks.size());
}

std::uint32_t map_shared_rank(std::uint32_t address, std::uint32_t rank, Where where) {
  Thread const& thread = running_thread(where);
  if (rank >= thread.own_block->cluster->blocks.size()) {
    fail(where, "rank %u of a cluster of %zu blocks", rank,
         thread.own_block->cluster->blocks.size());
  }
  return rank << kRankShift | offset_of(address);
}

void check_global(const void* at, std::size_t bytes, std::size_t alignment, Where where) {
  if (reinterpret_cast<std::uintptr_t>(at) % alignment != 0) {
    fail(where, "address %p is not a multiple of %zu", at, alignment);
  }
  begin_own_work();
  bool const is_there = is_device_memory(at, bytes);
  end_own_work();
  if (!is_there) fail(where, "%zu bytes at %p are not in device memory", bytes, at);
}

}  // namespace simt
