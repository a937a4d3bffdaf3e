#include "cuda/sim_stream.h"

#include "cuda/sim_call.h"
#include "cuda/sim_capture.h"

#include <algorithm>

namespace simt::cuda {
namespace {

constexpr int kMaxGiven = 1024;  // then the stream is full, and giving it more waits
constexpr int kLeastPriority = 0, kGreatestPriority = -5;

DeviceState& device_of(CUstream_st const& stream) {
  return state().devices[static_cast<std::size_t>(stream.device)];
}

bool runs_now() {
  Settings const& settings = state().settings;
  if (settings.work_time != WorkTime::kMixed) return settings.work_time == WorkTime::kEarly;
  return ((state().next_id + settings.seed) * 0x9E3779B97F4A7C15u >> 62) == 0;
}

// What the default stream comes after: itself and all streams that wait for it.
void come_after_blocking_streams(Work& work, int device) {
  for_each_stream([&](CUstream_st& stream) {
    if (stream.device == device && stream.is_blocking()) come_after(work, stream.tail);
  });
  for (WorkPtr const& orphan : state().devices[static_cast<std::size_t>(device)].orphans) {
    come_after(work, orphan);
  }
}

cudaError_t create(cudaStream_t* result, unsigned flags, int priority) {
  return api("cudaStreamCreate", Needs::kDevice, [&](Lock&) {
    if (result == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
      return cudaErrorInvalidValue;
    }
    auto* const stream = new CUstream_st;
    stream->device = current_device();
    stream->flags = flags;
    stream->priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
    stream->id = state().next_id++;
    state().streams.insert(stream);
    *result = stream;
    return cudaSuccess;
  });
}

// One member of a stream.
template <typename T>
cudaError_t get(const char* call, cudaStream_t handle, T CUstream_st::* member, T* value) {
  return api(call, Needs::kDevice, [&](Lock&) {
    CUstream_st* stream = nullptr;
    if (cudaError_t const error = find_stream(handle, stream); error != cudaSuccess) return error;
    if (value == nullptr) return cudaErrorInvalidValue;
    *value = stream->*member;
    return cudaSuccess;
  });
}

// Whether the stream can be waited for.
cudaError_t forbid_waiting(CUstream_st const& stream) {
  if (stream.capture != nullptr) {
    return break_capture(*stream.capture, cudaErrorStreamCaptureUnsupported);
  }
  return stream.is_legacy ? forbid_legacy(stream.device, true) : cudaSuccess;
}

// The end of all that the stream has been given.
WorkPtr end_of(CUstream_st& stream) {
  if (!stream.is_legacy) return stream.tail;
  auto const end = std::make_shared<Work>();
  end->task.device = stream.device;
  come_after(*end, stream.tail);
  come_after_blocking_streams(*end, stream.device);
  return end->after.empty() ? nullptr : end;
}

}  // namespace

cudaError_t find_stream(cudaStream_t handle, CUstream_st*& stream) {
  DeviceState& device = state().devices[static_cast<std::size_t>(current_device())];
  if (handle == nullptr || handle == cudaStreamLegacy) {
    stream = &device.legacy;
  } else if (handle == cudaStreamPerThread) {
    auto& own = device.per_thread[std::this_thread::get_id()];
    if (own == nullptr) {
      own = std::make_unique<CUstream_st>();
      own->device = device.ordinal;
      own->id = state().next_id++;
    }
    stream = own.get();
  } else if (state().streams.contains(handle)) {
    stream = handle;
  } else {
    return cudaErrorInvalidResourceHandle;
  }
  return cudaSuccess;
}

cudaError_t find_stream_for_work(cudaStream_t handle, CUstream_st*& stream) {
  cudaError_t const error = find_stream(handle, stream);
  if (error != cudaSuccess) return error;
  return stream->is_legacy ? forbid_legacy(stream->device, true) : cudaSuccess;
}

cudaError_t find_current_stream_for_work(cudaStream_t handle, CUstream_st*& stream) {
  cudaError_t const error = find_stream_for_work(handle, stream);
  if (error != cudaSuccess) return error;
  return stream->device == current_device() ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t give(Lock& lock, CUstream_st& stream, Task task, Given& given) {
  if (stream.capture != nullptr) return record(stream, std::move(task), given.overlaps_previous);
  auto const work = std::make_shared<Work>();
  work->task = std::move(task);
  work->floor_us = device_of(stream).host_us;
  come_after(*work, stream.tail);
  if (stream.is_legacy) {
    come_after_blocking_streams(*work, stream.device);
  } else if (stream.is_blocking()) {
    come_after(*work, device_of(stream).legacy.tail);
  }
  come_after(*work, given.after);
  bool const follows_kernel = work->after.size() == 1 && work->after[0] == stream.tail &&
                              stream.tail->task.kernel != nullptr;
  work->overlaps_previous = given.overlaps_previous && follows_kernel;
  stream.tail = given.work = work;
  state().next_id++;
  if (++stream.given_count >= kMaxGiven || runs_now()) complete_stream(lock, stream);
  return cudaSuccess;
}

void complete_stream(Lock& lock, CUstream_st& stream) {
  stream.given_count = 0;
  WorkPtr const end = end_of(stream);
  complete(lock, end);
}

void complete_device(Lock& lock, int device) {
  auto const end = std::make_shared<Work>();
  end->task.device = device;
  DeviceState& the_device = state().devices[static_cast<std::size_t>(device)];
  come_after(*end, the_device.legacy.tail);
  for_each_stream([&](CUstream_st& stream) {
    if (stream.device != device) return;
    come_after(*end, stream.tail);
    stream.given_count = 0;
  });
  for (WorkPtr const& orphan : the_device.orphans) come_after(*end, orphan);
  the_device.orphans.clear();
  complete(lock, end);
}

}  // namespace simt::cuda

using namespace simt::cuda;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return create(stream, cudaStreamDefault, kLeastPriority);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return create(stream, flags, kLeastPriority);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return create(stream, flags, priority);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    if (least != nullptr) *least = kLeastPriority;
    if (greatest != nullptr) *greatest = kGreatestPriority;
    return cudaSuccess;
  });
}

// Its work goes on.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return api(__func__, Needs::kNothing, [&](Lock&) {
    if (!state().streams.contains(stream)) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) {
      stream->capture->is_invalid = true;
      if (stream->capture->origin == stream) end_capture(std::shared_ptr(stream->capture));
    }
    if (stream->tail != nullptr && stream->tail->state != WorkState::kDone) {
      device_of(*stream).orphans.push_back(stream->tail);
    }
    state().streams.erase(stream);
    delete stream;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return api(__func__, Needs::kDevice, [&](Lock& lock) {
    CUstream_st* stream = nullptr;
    cudaError_t error = find_stream(handle, stream);
    if (error == cudaSuccess) error = forbid_waiting(*stream);
    if (error == cudaSuccess) error = forbid_if_capturing();
    if (error != cudaSuccess) return error;
    int const device = stream->device;
    complete_stream(lock, *stream);
    return state().devices[static_cast<std::size_t>(device)].sticky;
  });
}

// Each query of a stream that is not done lets it do one thing more, so that who asks until it is
// done gets there.
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return api(__func__, Needs::kDevice, [&](Lock& lock) {
    CUstream_st* stream = nullptr;
    cudaError_t error = find_stream(handle, stream);
    if (error == cudaSuccess) error = forbid_waiting(*stream);
    if (error == cudaSuccess) error = forbid_if_capturing();
    if (error != cudaSuccess) return error;
    DeviceState& device = device_of(*stream);
    bool const was_busy = advance(lock, end_of(*stream));
    if (device.sticky != cudaSuccess) return device.sticky;
    return was_busy ? cudaErrorNotReady : cudaSuccess;
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return get(__func__, handle, &CUstream_st::flags, flags);
}
cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return get(__func__, handle, &CUstream_st::priority, priority);
}
// As CUDA 13.0 has it: of a stream that is capturing it ends the capture.
cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    CUstream_st* stream = nullptr;
    if (cudaError_t const error = find_stream(handle, stream); error != cudaSuccess) return error;
    if (device == nullptr) return cudaErrorInvalidValue;
    if (stream->capture != nullptr) {
      return break_capture(*stream->capture, cudaErrorStreamCaptureUnsupported);
    }
    *device = stream->device;
    return cudaSuccess;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return api(__func__, Needs::kDevice, [&](Lock& lock) {
    CUstream_st* stream = nullptr;
    cudaError_t const error = find_stream_for_work(handle, stream);
    if (error != cudaSuccess) return error;
    if (function == nullptr) return cudaErrorInvalidValue;
    Task task;
    task.name = "a function of the host";
    task.device = stream->device;
    task.node_type = cudaGraphNodeTypeHost;
    task.run = [function, data] {
      InHostFunction const here;
      function(data);
      return cudaSuccess;
    };
    Given given;
    return give(lock, *stream, std::move(task), given);
  });
}
