#include "cuda/sim_work.h"

#include "cuda/sim_kernel.h"
#include "cuda/sim_state.h"

#include <algorithm>

namespace simt::cuda {
namespace {

// Depth first, without recursion: a stream may hold a thousand pieces of work.
class Ancestors {
 public:
  static std::vector<WorkPtr> of(WorkPtr const& last) {
    Ancestors order;
    order.visit(last);
    while (!order.stack_.empty()) order.step();
    return std::move(order.result_);
  }

 private:
  Ancestors() : mark_(state().next_id++) {}

  struct Entry {
    WorkPtr work;
    std::size_t next = 0;
  };

  void visit(WorkPtr const& work) {
    if (work->visit == mark_ || work->state == WorkState::kDone) return;
    work->visit = mark_;
    stack_.push_back({work});
  }
  void step() {
    Entry& top = stack_.back();
    std::size_t const count = top.work->after.size();
    if (top.next == count) {
      result_.push_back(std::move(top.work));
      stack_.pop_back();
      return;
    }
    std::size_t const i = top.next++;
    // Independent work may run in any order.
    bool const is_reversed = state().settings.seed % 2 == 1;
    visit(WorkPtr(top.work->after[is_reversed ? count - 1 - i : i]));
  }

  std::uint64_t mark_;
  std::vector<Entry> stack_;
  std::vector<WorkPtr> result_;
};

// Marked as running: tasks[first .. first + count) run together.
void run_batch(Lock& lock, std::span<const WorkPtr> batch) {
  DeviceState& device = state().devices[static_cast<std::size_t>(batch.front()->task.device)];
  std::vector<const Task*> tasks;
  auto const overlaps = std::make_unique<bool[]>(batch.size());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    batch[i]->state = WorkState::kRunning;
    tasks.push_back(&batch[i]->task);
    overlaps[i] = i > 0;
  }
  double start_us = batch.front()->floor_us;
  for (WorkPtr const& earlier : batch.front()->after) {
    start_us = std::max(start_us, earlier->end_us);
  }
  cudaError_t error = device.sticky;
  if (error == cudaSuccess) {  // a device that has failed does nothing any more
    lock.unlock();
    error = run_tasks(tasks, {overlaps.get(), batch.size()});
    lock.lock();
  }
  if (error != cudaSuccess && device.sticky == cudaSuccess) device.sticky = error;
  for (WorkPtr const& work : batch) {
    start_us = work->end_us = start_us + work->task.cost_us;
    work->state = WorkState::kDone;
    work->after.clear();
    work->task.run = nullptr;
    // Threads of a grid that failed stand where they are: what they refer to stays.
    if (error != cudaSuccess) state().abandoned.push_back(work->task);
    work->task.kernel = nullptr;
  }
  state().progress.notify_all();
}

// How many, from `first` on, are kernels of one chain.
std::size_t chain_length(std::vector<WorkPtr> const& order, std::size_t first) {
  std::size_t count = 1;
  while (first + count < order.size()) {
    Work const& next = *order[first + count];
    bool const follows = next.overlaps_previous && next.state == WorkState::kQueued &&
                         next.after.size() == 1 && next.after[0] == order[first + count - 1];
    if (!follows) break;
    ++count;
  }
  return count;
}

}  // namespace

void come_after(Work& work, WorkPtr const& earlier) {
  if (earlier == nullptr) return;
  work.floor_us = std::max(work.floor_us, earlier->end_us);
  if (earlier->state != WorkState::kDone) work.after.push_back(earlier);
}

void complete(Lock& lock, WorkPtr const& work) {
  if (work == nullptr) return;
  std::vector<WorkPtr> const order = Ancestors::of(work);
  for (std::size_t i = 0; i < order.size();) {
    while (order[i]->state == WorkState::kRunning) state().progress.wait(lock);
    if (order[i]->state == WorkState::kDone) {
      ++i;
      continue;
    }
    std::size_t const count = chain_length(order, i);
    run_batch(lock, std::span(order).subspan(i, count));
    i += count;
  }
  DeviceState& device = state().devices[static_cast<std::size_t>(work->task.device)];
  device.host_us = std::max(device.host_us, work->end_us);
}

bool advance(Lock& lock, WorkPtr const& work) {
  if (work == nullptr) return false;
  std::vector<WorkPtr> const order = Ancestors::of(work);
  if (order.empty()) return false;
  // Where the first is another thread's, that thread is what makes progress.
  if (order[0]->state == WorkState::kQueued) {
    run_batch(lock, std::span(order).subspan(0, chain_length(order, 0)));
  }
  return true;
}

cudaError_t run_tasks(std::span<const Task* const> tasks, std::span<const bool> overlaps) {
  for (std::size_t i = 0; i < tasks.size();) {
    std::size_t end = i + 1;
    cudaError_t error = cudaSuccess;
    if (tasks[i]->kernel != nullptr) {
      std::vector<const KernelCall*> chain = {tasks[i]->kernel.get()};
      while (end < tasks.size() && overlaps[end]) chain.push_back(tasks[end++]->kernel.get());
      error = run_kernel_chain(tasks[i]->device, chain);
    } else if (tasks[i]->run != nullptr) {
      error = tasks[i]->run();
    }
    if (error != cudaSuccess) return error;
    i = end;
  }
  return cudaSuccess;
}

}  // namespace simt::cuda
