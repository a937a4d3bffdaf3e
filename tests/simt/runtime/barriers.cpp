// Barriers of a block and of a cluster.
#include "runtime/model.h"

namespace simt {
namespace {

void complete_if_all_are_here(Cluster& cluster) {
  if (cluster.arrived == 0 || cluster.arrived != cluster.alive) return;
  cluster.arrived = 0;
  ++cluster.phase;
  make_ready(cluster.waiters);
}

}  // namespace

void sync_block(Where where) {
  Block& block = *running_thread(where).own_block;
  BlockBarrier& barrier = block.barrier;
  if (block.alive != block.thread_count) {
    fail(where, "__syncthreads() of which %u threads of the block have exited",
         block.thread_count - block.alive);
  }
  if (barrier.arrived != 0 && !is_same_place(barrier.where, where)) {
    fail(where, "threads of a block meet at different barriers: here and at %s:%u",
         barrier.where.file_name(), barrier.where.line());
  }
  std::uint64_t const phase = barrier.phase;
  release(barrier.sync.at(phase));
  {
    OwnWork const work;
    barrier.where = where;
    if (++barrier.arrived < block.thread_count) {
      barrier.waiters.push_back(&running_thread());
      wait("__syncthreads", 0, where);
    } else {
      barrier.arrived = 0;
      ++barrier.phase;
      make_ready(barrier.waiters);
    }
  }
  acquire(barrier.sync.at(phase));
}

void arrive_cluster(Where where) {
  Thread& thread = running_thread(where);
  Cluster& cluster = *thread.own_block->cluster;
  if (thread.arrived_at_cluster) {
    fail(where, "a second barrier.cluster.arrive without barrier.cluster.wait");
  }
  thread.arrived_at_cluster = true;
  thread.where = where;
  thread.cluster_phase = cluster.phase;
  release(cluster.sync.at(cluster.phase));
  OwnWork const work;
  ++cluster.arrived;
  complete_if_all_are_here(cluster);
}

void wait_cluster(Where where) {
  Thread& thread = running_thread(where);
  Cluster& cluster = *thread.own_block->cluster;
  if (!thread.arrived_at_cluster) {
    fail(where, "barrier.cluster.wait without barrier.cluster.arrive");
  }
  thread.arrived_at_cluster = false;
  if (cluster.phase == thread.cluster_phase) {
    OwnWork const work;
    cluster.waiters.push_back(&thread);
    wait("barrier.cluster.wait", 0, where);
  }
  acquire(cluster.sync.at(thread.cluster_phase));
}

void leave_block(Thread& thread) {
  Block& block = *thread.own_block;
  BlockBarrier const& barrier = block.barrier;
  if (barrier.arrived != 0) {
    fail(barrier.where, "a thread exits while %u of its block wait at this __syncthreads()",
         barrier.arrived);
  }
  if (--block.alive != 0) return;
  if (!block.lets_dependents_go) --block.cluster->grid->ungranting_blocks;
  for (auto const& [offset, mbarrier] : block.mbarriers) {
    if (mbarrier.bytes == 0) continue;
    fail(thread.where,
         "the block ends while copies of %lld bytes for its mbarrier %#x are under way",
         static_cast<long long>(mbarrier.bytes), offset);
  }
}

// A thread that exits counts as one that arrives.
void leave_cluster(Thread& thread) {
  Cluster& cluster = *thread.own_block->cluster;
  --cluster.alive;
  complete_if_all_are_here(cluster);
}

void check_nothing_pending(Thread const& thread) {
  if (thread.arrived_at_cluster) {
    fail(thread.where, "a thread exits between barrier.cluster.arrive and barrier.cluster.wait");
  }
  if (!thread.copies.empty()) {
    fail(thread.copies.front().where, "a thread exits before its asynchronous copy is waited for");
  }
}

}  // namespace simt
