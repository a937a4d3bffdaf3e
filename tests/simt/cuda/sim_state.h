// All that the simulated CUDA library knows, behind one lock. Work runs without the lock; the list
// of allocations has a lock of its own (sim_memory.h).
#pragma once

#include "cuda/sim_settings.h"
#include "cuda/sim_work.h"

#include <cuda_runtime_api.h>

#include <array>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace simt::cuda {
struct Capture;
}

// What a cudaStream_t points to.
struct CUstream_st {
  int device = 0;
  unsigned flags = cudaStreamDefault;
  int priority = 0;
  unsigned long long id = 0;
  bool is_legacy = false;
  simt::cuda::WorkPtr tail;  // what the stream was last given; null: nothing yet
  int given_count = 0;       // since it was last waited for
  std::shared_ptr<simt::cuda::Capture> capture = nullptr;
  std::vector<std::size_t> capture_tail = {};  // nodes that the next one comes after

  bool is_blocking() const { return !is_legacy && (flags & cudaStreamNonBlocking) == 0; }
};

// What a cudaEvent_t points to.
struct CUevent_st {
  int device = 0;
  unsigned flags = cudaEventDefault;
  simt::cuda::WorkPtr work = nullptr;  // its last record; null: none, or one inside a capture
  std::shared_ptr<simt::cuda::Capture> capture = nullptr;
  std::vector<std::size_t> capture_nodes = {};
};

namespace simt::cuda {

using Lock = std::unique_lock<std::mutex>;

struct DeviceState {
  int ordinal = 0;
  CUstream_st legacy;
  std::map<std::thread::id, std::unique_ptr<CUstream_st>> per_thread;
  std::vector<WorkPtr> orphans;  // given to streams that have been destroyed since
  cudaError_t sticky = cudaSuccess;
  double host_us = 0;   // the time of the last thing that was waited for
  std::set<int> peers;  // whose memory its kernels may touch
};

struct Injection {
  std::string call;
  int countdown = 0;
  cudaError_t error = cudaSuccess;
};

struct State {
  State();
  std::mutex mutex;
  std::condition_variable progress;  // some work has ended
  Settings settings;
  std::array<DeviceState, kMaxDevices> devices;
  std::set<CUstream_st*> streams;  // made by cudaStreamCreate
  std::set<CUevent_st*> events;
  std::set<CUgraph_st*> graphs;
  std::set<CUgraphExec_st*> graph_execs;
  std::set<std::shared_ptr<Capture>> captures;  // not ended
  std::vector<Injection> injections;
  std::vector<Injection> kernel_failures;
  std::vector<Task> abandoned;  // in which something failed
  unsigned long long next_id = 1;
};

// Made at first use, never destroyed.
State& state();

// The calling thread's.
int current_device();
void set_current_device(int device);

}  // namespace simt::cuda
