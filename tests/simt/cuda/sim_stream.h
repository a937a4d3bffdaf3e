// Streams, and giving them work.
#pragma once

#include "cuda/sim_state.h"

namespace simt::cuda {

// The stream that a handle stands for: null, cudaStreamLegacy and cudaStreamPerThread are of the
// current device. cudaErrorInvalidResourceHandle for what is no stream.
cudaError_t find_stream(cudaStream_t handle, CUstream_st*& stream);
// Also fails where the stream may be given no work, because another one is capturing.
cudaError_t find_stream_for_work(cudaStream_t handle, CUstream_st*& stream);
// Also fails where the stream is of a device that is not current.
cudaError_t find_current_stream_for_work(cudaStream_t handle, CUstream_st*& stream);

struct Given {
  WorkPtr after = nullptr;         // beside what is in the stream
  bool overlaps_previous = false;  // the stream's previous kernel, where that is what came last
  WorkPtr work = nullptr;          // what was made of the task; null inside a capture
};

// Puts a task at the end of a stream, or into the graph that the stream is captured in.
cudaError_t give(Lock& lock, CUstream_st& stream, Task task, Given& given);

// Waits for all that the stream, or the device, was given.
void complete_stream(Lock& lock, CUstream_st& stream);
void complete_device(Lock& lock, int device);

template <typename Function>
void for_each_stream(Function&& function) {
  for (DeviceState& device : state().devices) {
    for (auto const& [thread, stream] : device.per_thread) function(*stream);
  }
  for (CUstream_st* const stream : state().streams) function(*stream);
}

}  // namespace simt::cuda
