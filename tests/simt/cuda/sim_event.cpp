// Events: marks in streams, to wait for and to read the time at. Time is simulated: a piece of work
// begins when all that it comes after has ended, and takes what its kind and size cost, so that
// times are the same in every run.
#include "cuda/sim_call.h"
#include "cuda/sim_capture.h"
#include "cuda/sim_stream.h"

namespace simt::cuda {
namespace {

cudaError_t find_event(cudaEvent_t event) {
  return state().events.contains(event) ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

cudaError_t create(cudaEvent_t* result, unsigned flags) {
  return api("cudaEventCreate", Needs::kDevice, [&](Lock&) {
    constexpr unsigned kKnown = cudaEventBlockingSync | cudaEventDisableTiming;
    if (result == nullptr || (flags & ~kKnown) != 0) return cudaErrorInvalidValue;
    *result = new CUevent_st{current_device(), flags};
    state().events.insert(*result);
    return cudaSuccess;
  });
}

// An event whose last record is in a capture stands for nothing that runs.
cudaError_t forbid_captured(CUevent_st const& event) {
  if (event.capture == nullptr) return forbid_if_capturing();
  if (!event.capture->has_ended) event.capture->is_invalid = true;
  return cudaErrorCapturedEvent;
}

cudaError_t sticky_of(CUevent_st const& event) {
  return state().devices[static_cast<std::size_t>(event.device)].sticky;
}

cudaError_t record_event(Lock& lock, cudaEvent_t event, cudaStream_t handle) {
  if (find_event(event) != cudaSuccess) return cudaErrorInvalidResourceHandle;
  CUstream_st* stream = nullptr;
  cudaError_t error = find_stream_for_work(handle, stream);
  if (error != cudaSuccess) return error;
  if (stream->device != event->device) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr) {
    if (stream->capture->is_invalid) return cudaErrorStreamCaptureInvalidated;
    event->work = nullptr;
    event->capture = stream->capture;
    event->capture_nodes = stream->capture_tail;
    return cudaSuccess;
  }
  Task task;
  task.name = "the record of an event";
  task.device = stream->device;
  Given given;
  error = give(lock, *stream, std::move(task), given);
  event->work = given.work;
  event->capture = nullptr;
  event->capture_nodes.clear();
  return error;
}

}  // namespace
}  // namespace simt::cuda

using namespace simt::cuda;

cudaError_t cudaEventCreate(cudaEvent_t* event) { return create(event, cudaEventDefault); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return create(event, flags);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return api(__func__, Needs::kNothing, [&](Lock&) {
    if (state().events.erase(event) == 0) return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return api(__func__, Needs::kDevice,
             [&](Lock& lock) { return record_event(lock, event, stream); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return api(__func__, Needs::kDevice, [&](Lock& lock) {
    // Events that graphs record for the outside are not simulated.
    if (flags != cudaEventRecordDefault) return cudaErrorNotSupported;
    return record_event(lock, event, stream);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  return api(__func__, Needs::kDevice, [&](Lock& lock) {
    if (find_event(event) != cudaSuccess) return cudaErrorInvalidResourceHandle;
    if (flags != cudaEventWaitDefault) return cudaErrorNotSupported;
    CUstream_st* stream = nullptr;
    cudaError_t const error = find_stream_for_work(handle, stream);
    if (error != cudaSuccess) return error;
    bool const was_recorded = event->work != nullptr || event->capture != nullptr;
    if (!was_recorded) return cudaSuccess;
    if (stream->capture != nullptr || event->capture != nullptr) {
      return wait_in_capture(*stream, *event);
    }
    Task task;
    task.name = "a wait for an event";
    task.device = stream->device;
    Given given = {.after = event->work};
    return give(lock, *stream, std::move(task), given);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return api(__func__, Needs::kDevice, [&](Lock& lock) {
    if (find_event(event) != cudaSuccess) return cudaErrorInvalidResourceHandle;
    cudaError_t const error = forbid_captured(*event);
    if (error != cudaSuccess) return error;
    int const device = event->device;
    complete(lock, WorkPtr(event->work));
    return state().devices[static_cast<std::size_t>(device)].sticky;
  });
}

// As of a stream, each query lets one thing more happen.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return api(__func__, Needs::kDevice, [&](Lock& lock) {
    if (find_event(event) != cudaSuccess) return cudaErrorInvalidResourceHandle;
    cudaError_t const error = forbid_captured(*event);
    if (error != cudaSuccess) return error;
    bool const was_busy = advance(lock, WorkPtr(event->work));
    if (sticky_of(*event) != cudaSuccess) return sticky_of(*event);
    return was_busy ? cudaErrorNotReady : cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    for (cudaEvent_t const event : {begin, end}) {
      if (find_event(event) != cudaSuccess) return cudaErrorInvalidResourceHandle;
      if (event->capture != nullptr) return cudaErrorCapturedEvent;
      bool const has_time = (event->flags & cudaEventDisableTiming) == 0;
      if (event->work == nullptr || !has_time) return cudaErrorInvalidResourceHandle;
    }
    if (begin->device != end->device) return cudaErrorInvalidResourceHandle;
    for (cudaEvent_t const event : {begin, end}) {
      if (event->work->state != WorkState::kDone) return cudaErrorNotReady;
    }
    *milliseconds = static_cast<float>(1e-3 * (end->work->end_us - begin->work->end_us));
    return cudaSuccess;
  });
}
