// Work that was given to a device and has not run yet. A piece of work knows what it comes after;
// waiting for one runs it and all it comes after, on the thread that waits, and nothing else: as
// late as CUDA allows.
#pragma once

#include <driver_types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace simt::cuda {

struct KernelCall;

// What is done: by a kernel, or by a function that runs without the lock.
struct Task {
  const char* name = "";
  int device = 0;
  std::shared_ptr<KernelCall> kernel = nullptr;
  std::function<cudaError_t()> run = nullptr;
  double cost_us = 0;
  cudaGraphNodeType node_type = cudaGraphNodeTypeEmpty;
};

struct Work;
using WorkPtr = std::shared_ptr<Work>;

enum class WorkState { kQueued, kRunning, kDone };

struct Work {
  Task task;
  WorkState state = WorkState::kQueued;
  std::vector<WorkPtr> after;  // empty when done
  // The kernel that this one may overlap (programmatic stream serialization): all it comes after.
  bool overlaps_previous = false;
  double floor_us = 0;  // it does not begin before
  double end_us = 0;    // known when done
  std::uint64_t visit = 0;
};

// Appends what is not null and not done.
void come_after(Work& work, WorkPtr const& earlier);

// Runs the work and what it comes after. Other threads may run parts of it meanwhile.
void complete(std::unique_lock<std::mutex>& lock, WorkPtr const& work);
// Runs one piece of what is left; false where nothing was.
bool advance(std::unique_lock<std::mutex>& lock, WorkPtr const& work);

// Runs tasks one after the other, without the lock; kernels that overlap are run as one chain.
// Stops at the first error. overlaps[i]: task i overlaps the one before.
cudaError_t run_tasks(std::span<const Task* const> tasks, std::span<const bool> overlaps);

}  // namespace simt::cuda
