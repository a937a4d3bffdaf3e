// What a running kernel is made of: grids of clusters of blocks of warps of threads, on one thread
// of the host.
#pragma once

#include "runtime/device_calls.h"
#include "runtime/engine.h"
#include "runtime/fiber.h"
#include "runtime/kernel_launch.h"
#include "runtime/mbarrier.h"
#include "runtime/sanitizers.h"
#include "runtime/thread_schedule.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace simt {

struct Block;
struct Cluster;
struct Grid;
struct Warp;

enum class State : std::uint8_t { ready, waiting, ended };

// A copy that cp.async was given, until it is done.
struct AsyncCopy {
  std::uint32_t to = 0;
  const void* from = nullptr;
  std::size_t bytes = 0;
  std::size_t from_bytes = 0;
  std::uint64_t group = 0;
  Where where;
};

struct Thread : Site {
  Block* own_block = nullptr;
  Warp* warp = nullptr;
  Fiber fiber;
  State state = State::ready;
  const char* waits_for = "";  // a kind of wait, with what it is of
  std::uint32_t waits_on = 0;
  Where where;

  std::vector<AsyncCopy> copies;
  std::uint64_t copy_group = 0;     // that the next copy will be of
  std::uint64_t cluster_phase = 0;  // of the cluster barrier that it has arrived at
  bool arrived_at_cluster = false;
  std::uint32_t spins = 0;  // atomics and polls since it last waited
  bool has_fenced = false;
  std::vector<const void*> seen_atomics;  // since the last fence
};

// Threads that wait for the same.
using Waiters = std::vector<Thread*>;

// The lanes of a mask, which meet again and again.
struct LaneGroup {
  std::uint32_t mask = 0;
  std::uint32_t arrived = 0;
  std::uint64_t phase = 0;
  std::uint32_t present[2] = {};
  const char* what = "";
  Where where;
  Waiters waiters;
  PhaseSync sync;
  alignas(16) std::byte table[2][32 * kMaxExchangedBytes];
};

struct Warp {
  std::uint32_t alive = 0;
  std::deque<LaneGroup> groups;
  std::uint64_t priority = 0;
};

struct BlockBarrier {
  std::uint32_t arrived = 0;
  std::uint64_t phase = 0;
  Where where;
  Waiters waiters;
  PhaseSync sync;
};

struct Block {
  Cluster* cluster = nullptr;
  std::uint32_t rank = 0;
  bool is_odd = false;  // its blockIdx.x
  char* arena = nullptr;
  std::vector<bool> has_variable;  // by number, of those that some thread has declared
  std::uint32_t thread_count = 0;
  std::uint32_t alive = 0;
  bool lets_dependents_go = false;
  BlockBarrier barrier;                         // __syncthreads()
  std::map<std::uint32_t, MBarrier> mbarriers;  // by offset
  std::vector<Warp> warps;
  std::vector<Thread> threads;
};

struct Cluster {
  Grid* grid = nullptr;
  std::vector<std::unique_ptr<Block>> blocks;
  std::uint32_t alive = 0;  // threads
  std::uint32_t arrived = 0;
  std::uint64_t phase = 0;
  Waiters waiters;
  PhaseSync sync;
  Stacks stacks;
};

struct Grid {
  Launch launch;
  Grid* previous = nullptr;  // that it overlaps
  std::uint64_t cluster_count = 0;
  std::uint64_t next_cluster = 0;  // of those not begun
  std::uint64_t ended_clusters = 0;
  std::uint64_t ungranting_blocks = 0;  // that neither ended nor let dependents begin
  Waiters waiters;                      // in griddepcontrol.wait
  char end_sync = 0;

  bool has_ended() const { return ended_clusters == cluster_count; }
};

// All of run_kernels().
struct Run {
  std::vector<std::unique_ptr<Grid>> grids;
  std::deque<std::unique_ptr<Cluster>> clusters;  // resident
  Fiber host;
  Fiber copier;  // what asynchronous copies are seen as
  Engine engine;
  Scheduler scheduler{current_schedule()};
  std::optional<Failure> failure;
};

extern thread_local Run* run;
// The running thread; `where` is blamed where there is none.
Thread& running_thread(Where where);
inline Thread& running_thread() { return *static_cast<Thread*>(self); }

std::string name_of(Thread const& thread);
std::string text_of(Where where);

// Gives the processor to another thread until somebody calls make_ready(). Within OwnWork.
void wait(const char* what, std::uint32_t of, Where where);
void make_ready(Thread& thread);
void make_ready(Waiters& waiters);

// What the end of a thread completes or leaves behind.
void leave_warp(Thread& thread);
void leave_block(Thread& thread);
void leave_cluster(Thread& thread);
void check_nothing_pending(Thread const& thread);

}  // namespace simt
