// Runs kernels to their end: begins clusters, switches between threads, and does on the host's
// fiber what no thread does.
#include "runtime/model.h"
#include "runtime/report.h"
#include "runtime/shared_memory.h"

#include <algorithm>

MSDA_SIMT_TLS uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace simt {

thread_local Run* run = nullptr;
MSDA_SIMT_TLS Site* self = nullptr;

namespace {

// Clusters that are begun before anything forces it, under random schedules.
constexpr std::size_t kMaxEagerClusters = 3;

thread_local Stacks spare_stacks;

void become(Thread* thread) {
  self = thread;
  if (thread == nullptr) return;
  Launch const& launch = thread->own_block->cluster->grid->launch;
  threadIdx = thread->thread;
  blockIdx = thread->block;
  blockDim = {launch.block.x, launch.block.y, launch.block.z};
  gridDim = {launch.grid.x, launch.grid.y, launch.grid.z};
}

void enter(Thread& thread) {
  become(&thread);
  switch_fiber(run->host, thread.fiber);
  become(nullptr);
}

// To the next thread that is ready, or the host.
void leave(Thread& thread) {
  Thread* const next = run->failure.has_value() ? nullptr : run->scheduler.take();
  become(next);
  switch_fiber(thread.fiber, next != nullptr ? next->fiber : run->host);
}

void run_thread() {
  Thread& thread = running_thread();
  Grid& grid = *thread.own_block->cluster->grid;
  grid.launch.kernel->invoke(grid.launch.kernel->entry, grid.launch.parameters);
  release(&grid.end_sync);
  {
    OwnWork const work;
    check_nothing_pending(thread);
    thread.state = State::ended;
    thread.fiber.has_ended = true;
    leave_warp(thread);
    leave_block(thread);
    leave_cluster(thread);
    run->scheduler.note_progress();
  }
  leave(thread);
}

std::size_t threads_of(dim3 block) { return std::size_t{block.x} * block.y * block.z; }

uint3 index_in(dim3 shape, std::uint64_t i) {
  return {static_cast<unsigned>(i % shape.x), static_cast<unsigned>(i / shape.x % shape.y),
          static_cast<unsigned>(i / (std::uint64_t{shape.x} * shape.y))};
}

void fill_thread(Thread& thread, Block& block, std::uint64_t i, uint3 block_index) {
  Launch const& launch = block.cluster->grid->launch;
  thread.thread = index_in(launch.block, i);
  thread.block = block_index;
  thread.cluster_rank = block.rank;
  thread.lane = static_cast<std::uint32_t>(i % 32);
  thread.capability = static_cast<std::uint32_t>(launch.device.capability);
  thread.own_block = &block;
  thread.warp = &block.warps[i / 32];
  thread.warp->alive |= 1u << thread.lane;
}

std::unique_ptr<Block> make_block(Cluster& cluster, std::uint32_t rank, uint3 index) {
  Launch const& launch = cluster.grid->launch;
  std::size_t const threads = threads_of(launch.block);
  auto block = std::make_unique<Block>();
  block->cluster = &cluster;
  block->rank = rank;
  block->is_odd = index.x % 2 != 0;
  block->thread_count = block->alive = static_cast<std::uint32_t>(threads);
  open_arena(*block);
  block->warps = std::vector<Warp>((threads + 31) / 32);
  for (Warp& warp : block->warps) warp.priority = run->scheduler.random().next();
  block->threads = std::vector<Thread>(threads);
  for (std::size_t i = 0; i < threads; ++i) fill_thread(block->threads[i], *block, i, index);
  return block;
}

void begin_cluster(Grid& grid) {
  Launch const& launch = grid.launch;
  auto cluster = std::make_unique<Cluster>();
  cluster->grid = &grid;
  cluster->stacks.swap(spare_stacks);
  dim3 const clusters(launch.grid.x / launch.cluster.x, launch.grid.y / launch.cluster.y,
                      launch.grid.z / launch.cluster.z);
  uint3 const at = index_in(clusters, grid.next_cluster++);
  std::size_t const blocks = threads_of(launch.cluster), threads = threads_of(launch.block);
  cluster->stacks.reserve(blocks * threads);
  std::size_t stack = 0;
  for (std::uint32_t rank = 0; rank < blocks; ++rank) {
    uint3 const in = index_in(launch.cluster, rank);
    uint3 const index = {at.x * launch.cluster.x + in.x, at.y * launch.cluster.y + in.y,
                         at.z * launch.cluster.z + in.z};
    cluster->blocks.push_back(make_block(*cluster, rank, index));
    Block& block = *cluster->blocks.back();
    cluster->alive += block.alive;
    for (Thread& thread : block.threads) {
      create_fiber(thread.fiber, cluster->stacks.stack(stack++), run_thread, name_of(thread));
      make_ready(thread);
    }
  }
  run->clusters.push_back(std::move(cluster));
}

bool may_begin(Grid const& grid) {
  if (grid.next_cluster == grid.cluster_count) return false;
  return grid.previous == nullptr || grid.previous->ungranting_blocks == 0;
}

bool begin_some_cluster() {
  for (auto const& grid : run->grids) {
    if (!may_begin(*grid)) continue;
    std::size_t const limit = static_cast<std::size_t>(grid->launch.device.sm_count);
    if (run->clusters.size() >= std::max<std::size_t>(limit, 1) * run->grids.size()) continue;
    begin_cluster(*grid);
    return true;
  }
  return false;
}

void end_cluster(Cluster& cluster) {
  for (auto const& block : cluster.blocks) {
    close_arena(*block);
    for (Thread& thread : block->threads) {
      if (thread.state == State::ended) {
        destroy_fiber(thread.fiber);
      } else {
        abandon_fiber(thread.fiber);
      }
    }
  }
#if MSDA_SIMT_TSAN
  cluster.stacks.release();  // or the next threads would race with these
#else
  cluster.stacks.swap(spare_stacks);
#endif
}

bool end_clusters() {
  auto const has_ended = [](auto const& cluster) { return cluster->alive == 0; };
  if (std::ranges::none_of(run->clusters, has_ended)) return false;
  while (run->engine.step(nullptr)) {
  }
  for (auto const& cluster : run->clusters) {
    if (!has_ended(cluster)) continue;
    end_cluster(*cluster);
    Grid& grid = *cluster->grid;
    ++grid.ended_clusters;
    if (grid.has_ended()) make_ready(grid.waiters);
  }
  std::erase_if(run->clusters, has_ended);
  return true;
}

// What the host does where no thread goes on, or at a random time; false where there is nothing.
bool do_something() {
  if (end_clusters()) return true;
  Scheduler& scheduler = run->scheduler;
  Random* const random = scheduler.is_random() ? &scheduler.random() : nullptr;
  bool const is_forced = scheduler.ready_count() == 0 || scheduler.only_polls();
  bool const is_eager = random != nullptr && run->clusters.size() < kMaxEagerClusters;
  if (is_eager && random->one_in(2) && begin_some_cluster()) return true;
  if (run->engine.step(random)) return true;
  return is_forced && begin_some_cluster();
}

bool have_all_ended() {
  return std::ranges::all_of(run->grids, [](auto const& grid) { return grid->has_ended(); });
}

void run_to_end() {
  while (!run->failure.has_value()) {
    if (Thread* const thread = run->scheduler.take()) {
      enter(*thread);
    } else if (do_something()) {
      run->scheduler.note_progress();
    } else if (have_all_ended()) {
      return;
    } else if (run->scheduler.ready_count() == 0 || run->scheduler.polls_forever()) {
      run->failure = report_deadlock();
    } else {
      enter(*run->scheduler.take_any());
    }
  }
}

std::unique_ptr<Grid> make_grid(Launch const& launch, Grid* previous) {
  auto grid = std::make_unique<Grid>();
  grid->launch = launch;
  dim3& cluster = grid->launch.cluster;
  cluster = {std::max(cluster.x, 1u), std::max(cluster.y, 1u), std::max(cluster.z, 1u)};
  grid->previous = previous;
  grid->ungranting_blocks = threads_of(launch.grid);
  grid->cluster_count = threads_of(launch.grid) / threads_of(cluster);
  return grid;
}

}  // namespace

void wait(const char* what, std::uint32_t of, Where where) {
  Thread& thread = running_thread();
  thread.state = State::waiting;
  thread.waits_for = what;
  thread.waits_on = of;
  thread.where = where;
  thread.spins = 0;
  run->scheduler.note_progress();
  leave(thread);
}

void make_ready(Thread& thread) {
  thread.state = State::ready;
  run->scheduler.add(thread);
}

void make_ready(Waiters& waiters) {
  for (Thread* const thread : waiters) make_ready(*thread);
  waiters.clear();
}

void pause() {
  OwnWork const work;
  Thread& thread = running_thread();
  run->scheduler.count_pause();
  make_ready(thread);
  leave(thread);
}

std::optional<Failure> run_kernels(std::span<const Launch> chain) {
  Run here;
  run = &here;
  name_thread_in_sanitizer_reports();
  become_fiber(here.host);
  begin_own_work();
  create_shadow(here.copier, "asynchronous copies");
  for (Launch const& launch : chain) {
    Grid* const previous = here.grids.empty() ? nullptr : here.grids.back().get();
    here.grids.push_back(make_grid(launch, previous));
  }
  run_to_end();
  for (auto const& cluster : here.clusters) end_cluster(*cluster);  // of a failure
  destroy_fiber(here.copier);
  end_own_work();
  for (auto const& grid : here.grids) acquire(&grid->end_sync);
  run = nullptr;
  return std::move(here.failure);
}

}  // namespace simt
