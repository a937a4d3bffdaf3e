// Captures of streams into graphs: what is recorded, and what is forbidden meanwhile.
#pragma once

#include "cuda/sim_state.h"

#include <deque>

// What a cudaGraphNode_t points to.
struct CUgraphNode_st {
  simt::cuda::Task task;
  std::vector<std::size_t> after;  // nodes of the same graph, all of them earlier ones
  bool overlaps_previous = false;  // the kernel of the only node that it comes after
};

namespace simt::cuda {

struct GraphNodes {
  std::deque<CUgraphNode_st> nodes;
};

struct Capture {
  unsigned long long id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id thread;
  CUstream_st* origin = nullptr;
  bool is_invalid = false;
  bool has_ended = false;
  std::shared_ptr<GraphNodes> graph = std::make_shared<GraphNodes>();
};

// For calls that are no work of a stream and might wait, such as cudaMalloc(): where a capture
// forbids them, that capture is broken.
cudaError_t forbid_if_capturing();
// Waiting for a device or asking about all of it, while one of its streams is capturing.
cudaError_t forbid_on_device(int device);
// The legacy default stream, while a stream that waits for it is capturing. `breaks`: the captures.
cudaError_t forbid_legacy(int device, bool breaks);
// An invalid operation on something that is being captured.
cudaError_t break_capture(Capture& capture, cudaError_t error);

// Its streams are as before it.
void end_capture(std::shared_ptr<Capture> const& capture);

// Makes a node of what a capturing stream is given.
cudaError_t record(CUstream_st& stream, Task task, bool overlaps_previous);
// cudaStreamWaitEvent() where stream or event have to do with a capture.
cudaError_t wait_in_capture(CUstream_st& stream, CUevent_st const& event);

}  // namespace simt::cuda
