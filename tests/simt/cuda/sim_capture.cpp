#include "cuda/sim_capture.h"

#include "cuda/sim_call.h"
#include "cuda/sim_graph.h"
#include "cuda/sim_stream.h"

#include <algorithm>

namespace simt::cuda {
namespace {

// This thread's mode: cudaThreadExchangeStreamCaptureMode().
thread_local cudaStreamCaptureMode t_mode = cudaStreamCaptureModeGlobal;

bool forbids_unsafe_calls(Capture const& capture) {
  if (t_mode == cudaStreamCaptureModeRelaxed) return false;
  if (capture.thread == std::this_thread::get_id()) {
    return capture.mode != cudaStreamCaptureModeRelaxed;
  }
  return t_mode == cudaStreamCaptureModeGlobal && capture.mode == cudaStreamCaptureModeGlobal;
}

void add_nodes(std::vector<std::size_t>& to, std::vector<std::size_t> const& from) {
  for (std::size_t const node : from) {
    if (std::find(to.begin(), to.end(), node) == to.end()) to.push_back(node);
  }
}

// Whether all that other streams recorded comes before the end of the origin's.
bool all_joined(Capture const& capture) {
  auto const& nodes = capture.graph->nodes;
  std::vector<bool> is_before(nodes.size(), false);
  for (std::size_t const node : capture.origin->capture_tail) is_before[node] = true;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (!is_before[i]) continue;
    for (std::size_t const earlier : nodes[i].after) is_before[earlier] = true;
  }
  return std::all_of(is_before.begin(), is_before.end(), [](bool b) { return b; });
}

}  // namespace

void end_capture(std::shared_ptr<Capture> const& capture) {
  for_each_stream([&](CUstream_st& stream) {
    if (stream.capture != capture) return;
    stream.capture = nullptr;
    stream.capture_tail.clear();
  });
  capture->has_ended = true;
  state().captures.erase(capture);
}

cudaError_t break_capture(Capture& capture, cudaError_t error) {
  capture.is_invalid = true;
  return error;
}

cudaError_t forbid_if_capturing() {
  cudaError_t error = cudaSuccess;
  for (auto const& capture : state().captures) {
    if (!forbids_unsafe_calls(*capture)) continue;
    error = break_capture(*capture, cudaErrorStreamCaptureUnsupported);
  }
  return error;
}

cudaError_t forbid_on_device(int device) {
  cudaError_t error = cudaSuccess;
  for_each_stream([&](CUstream_st& stream) {
    if (stream.capture == nullptr || stream.device != device) return;
    error = break_capture(*stream.capture, cudaErrorStreamCaptureUnsupported);
  });
  return error;
}

cudaError_t forbid_legacy(int device, bool breaks) {
  cudaError_t error = cudaSuccess;
  for_each_stream([&](CUstream_st& stream) {
    if (stream.capture == nullptr || stream.device != device || !stream.is_blocking()) return;
    error = cudaErrorStreamCaptureImplicit;
    if (breaks) stream.capture->is_invalid = true;
  });
  return error;
}

cudaError_t record(CUstream_st& stream, Task task, bool overlaps_previous) {
  Capture& capture = *stream.capture;
  if (capture.is_invalid) return cudaErrorStreamCaptureInvalidated;
  auto& nodes = capture.graph->nodes;
  bool const follows_kernel = stream.capture_tail.size() == 1 &&
                              nodes[stream.capture_tail[0]].task.kernel != nullptr &&
                              task.kernel != nullptr;
  nodes.push_back({std::move(task), stream.capture_tail, overlaps_previous && follows_kernel});
  stream.capture_tail = {nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t wait_in_capture(CUstream_st& stream, CUevent_st const& event) {
  if (event.capture == nullptr) {  // of work that the graph would not have
    return break_capture(*stream.capture, cudaErrorStreamCaptureIsolation);
  }
  if (event.capture->has_ended) {
    if (stream.capture != nullptr) stream.capture->is_invalid = true;
    return cudaErrorCapturedEvent;
  }
  if (event.capture->is_invalid) return cudaErrorStreamCaptureInvalidated;
  if (stream.is_legacy) return break_capture(*event.capture, cudaErrorStreamCaptureImplicit);
  if (stream.capture == nullptr) {
    stream.capture = event.capture;
    stream.capture_tail = event.capture_nodes;
    return cudaSuccess;
  }
  if (stream.capture->is_invalid) return cudaErrorStreamCaptureInvalidated;
  if (stream.capture != event.capture) {
    stream.capture->is_invalid = true;
    return break_capture(*event.capture, cudaErrorStreamCaptureMerge);
  }
  add_nodes(stream.capture_tail, event.capture_nodes);
  return cudaSuccess;
}

}  // namespace simt::cuda

using namespace simt::cuda;

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return api(__func__, Needs::kNothing, [&](Lock&) {
    if (mode == nullptr || *mode < 0 || *mode > cudaStreamCaptureModeRelaxed) {
      return cudaErrorInvalidValue;
    }
    std::swap(*mode, t_mode);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    CUstream_st* stream = nullptr;
    if (cudaError_t const error = find_stream(handle, stream); error != cudaSuccess) return error;
    if (mode < 0 || mode > cudaStreamCaptureModeRelaxed) return cudaErrorInvalidValue;
    if (stream->is_legacy) return cudaErrorStreamCaptureUnsupported;
    if (stream->capture != nullptr) return cudaErrorIllegalState;
    auto const capture = std::make_shared<Capture>();
    capture->id = state().next_id++;
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->origin = stream;
    stream->capture = capture;
    state().captures.insert(capture);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    CUstream_st* stream = nullptr;
    if (cudaError_t const error = find_stream(handle, stream); error != cudaSuccess) return error;
    if (graph == nullptr) return cudaErrorInvalidValue;
    *graph = nullptr;
    std::shared_ptr<Capture> const capture = stream->capture;
    if (capture == nullptr) return cudaErrorIllegalState;
    if (capture->origin != stream) {
      return break_capture(*capture, cudaErrorStreamCaptureUnmatched);
    }
    if (capture->mode != cudaStreamCaptureModeRelaxed &&
        capture->thread != std::this_thread::get_id()) {
      return cudaErrorStreamCaptureWrongThread;
    }
    bool const is_joined = all_joined(*capture);
    end_capture(capture);
    if (capture->is_invalid) return cudaErrorStreamCaptureInvalidated;
    if (!is_joined) return cudaErrorStreamCaptureUnjoined;
    *graph = make_graph(capture->graph);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return cudaStreamGetCaptureInfo(handle, status);
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     std::size_t* node_count) {
  return api("cudaStreamIsCapturing", Needs::kDevice, [&](Lock&) {
    CUstream_st* stream = nullptr;
    if (cudaError_t const error = find_stream(handle, stream); error != cudaSuccess) return error;
    // Changing a graph while it is captured is not simulated.
    bool const asks_for_nodes = graph != nullptr || nodes != nullptr || edges != nullptr;
    if (asks_for_nodes || node_count != nullptr) return cudaErrorNotSupported;
    if (status == nullptr) return cudaErrorInvalidValue;
    if (stream->is_legacy) {
      cudaError_t const error = forbid_legacy(stream->device, false);
      if (error != cudaSuccess) return error;
    }
    *status = stream->capture == nullptr    ? cudaStreamCaptureStatusNone
              : stream->capture->is_invalid ? cudaStreamCaptureStatusInvalidated
                                            : cudaStreamCaptureStatusActive;
    if (id != nullptr && stream->capture != nullptr) *id = stream->capture->id;
    return cudaSuccess;
  });
}
