// Captures: what becomes a graph, what is forbidden meanwhile, and in which thread.
#include "cuda/tests/sim_fixture.h"

#include <thread>

using namespace simt::cuda::test;

namespace {

cudaGraph_t captured(TestStream& s, Ints& a) {
  TestCapture capture(s, cudaStreamCaptureModeGlobal);
  REQUIRE(set(a.data, 3, s) == cudaSuccess);
  REQUIRE(add(a.data, 4, s) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  REQUIRE(capture.end(&graph) == cudaSuccess);
  return graph;
}

std::size_t node_count(cudaGraph_t graph) {
  std::size_t count = 0;
  REQUIRE(cudaGraphGetNodes(graph, nullptr, &count) == cudaSuccess);
  return count;
}

cudaError_t in_thread(cudaError_t (*call)()) {
  cudaError_t error = cudaSuccess;
  std::thread([&] { error = call(); }).join();
  return error;
}

cudaError_t allocate_and_free() {
  void* p = nullptr;
  cudaError_t const error = cudaMalloc(&p, 16);
  return error == cudaSuccess ? cudaFree(p) : error;
}

}  // namespace

TEST_CASE("a capture records and does not run; each launch runs all of it") {
  Ints a;
  TestStream s;
  std::vector<int> const garbage = a.now();
  cudaGraph_t const graph = captured(s, a);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(a.now() == garbage);
  CHECK(node_count(graph) == 2);
  cudaGraphExec_t executable = nullptr;
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  for (int i = 0; i < 3; ++i) {
    REQUIRE(cudaMemsetAsync(a.data, 0, Ints::kBytes, s) == cudaSuccess);
    CHECK(cudaGraphLaunch(executable, s) == cudaSuccess);
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(a.now() == all(7));
  }
  CHECK(cudaGraphLaunch(executable, s) == cudaSuccess);
  // What was launched runs all the same.
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaGraphExecDestroy(executable) == cudaErrorInvalidValue);
  CHECK(cudaGraphLaunch(executable, s) == cudaErrorInvalidValue);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("arguments are those at the time of the call") {
  Ints a;
  TestStream s;
  int value = 5;
  TestCapture capture(s, cudaStreamCaptureModeRelaxed);
  REQUIRE(set(a.data, value, s) == cudaSuccess);
  value = 6;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  REQUIRE(capture.end(&graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(executable, s) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(a.now() == all(5));
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

TEST_CASE("another stream joins by an event, and must be joined again") {
  Ints a, b;
  TestStream s, t;
  TestEvent fork, join;
  TestCapture capture(s, cudaStreamCaptureModeGlobal);
  REQUIRE(set(a.data, 1, s) == cudaSuccess);
  REQUIRE(cudaEventRecord(fork, s) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(t, fork, 0) == cudaSuccess);
  REQUIRE(launch({}, t, copy_kernel, b.data, a.data, kCount) == cudaSuccess);
  REQUIRE(cudaEventRecord(join, t) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  SUBCASE("joined") {
    REQUIRE(cudaStreamWaitEvent(s, join, 0) == cudaSuccess);
    REQUIRE(add(b.data, 10, s) == cudaSuccess);
    REQUIRE(capture.end(&graph) == cudaSuccess);
    CHECK(node_count(graph) == 3);
    cudaGraphNode_t nodes[4] = {};
    std::size_t count = 4;
    CHECK(cudaGraphGetNodes(graph, nodes, &count) == cudaSuccess);
    CHECK(count == 3);
    CHECK(nodes[3] == nullptr);
    cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
    CHECK(cudaGraphNodeGetType(nodes[0], &type) == cudaSuccess);
    CHECK(type == cudaGraphNodeTypeKernel);
    cudaGraphExec_t executable = nullptr;
    REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(executable, s) == cudaSuccess);
    CHECK(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(b.now() == all(11));
    CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(cudaEventSynchronize(join) == cudaErrorCapturedEvent);
    CHECK(cudaStreamWaitEvent(s, join, 0) == cudaErrorCapturedEvent);
  }
  SUBCASE("not joined") {
    CHECK(capture.end(&graph) == cudaErrorStreamCaptureUnjoined);
    CHECK(graph == nullptr);
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
    CHECK(cudaStreamIsCapturing(t, &status) == cudaSuccess);
    CHECK(status == cudaStreamCaptureStatusNone);
  }
  SUBCASE("ended in the other stream") {
    CHECK(cudaStreamEndCapture(t, &graph) == cudaErrorStreamCaptureUnmatched);
    CHECK(graph == nullptr);
    CHECK(capture.end(&graph) == cudaErrorStreamCaptureInvalidated);
  }
  cudaGetLastError();
}

TEST_CASE("waiting for what is captured, and other broken rules, break the capture") {
  Ints a;
  TestStream s, t;
  TestEvent inside, outside;
  REQUIRE(cudaEventRecord(outside, t) == cudaSuccess);
  TestCapture capture(s, cudaStreamCaptureModeRelaxed);
  REQUIRE(set(a.data, 1, s) == cudaSuccess);
  REQUIRE(cudaEventRecord(inside, s) == cudaSuccess);
  SUBCASE("its stream") { CHECK(cudaStreamSynchronize(s) == cudaErrorStreamCaptureUnsupported); }
  SUBCASE("asking its stream") { CHECK(cudaStreamQuery(s) == cudaErrorStreamCaptureUnsupported); }
  SUBCASE("asking for its stream's device") {
    int device = 0;
    CHECK(cudaStreamGetDevice(s, &device) == cudaErrorStreamCaptureUnsupported);
  }
  SUBCASE("an event in it") { CHECK(cudaEventSynchronize(inside) == cudaErrorCapturedEvent); }
  SUBCASE("asking an event in it") { CHECK(cudaEventQuery(inside) == cudaErrorCapturedEvent); }
  SUBCASE("the device") { CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported); }
  SUBCASE("work from outside") {
    CHECK(cudaStreamWaitEvent(s, outside, 0) == cudaErrorStreamCaptureIsolation);
  }
  SUBCASE("two captures by one event") {
    TestCapture other(t, cudaStreamCaptureModeRelaxed);
    CHECK(cudaStreamWaitEvent(t, inside, 0) == cudaErrorStreamCaptureMerge);
    CHECK(other.status() == cudaStreamCaptureStatusInvalidated);
  }
  SUBCASE("a copy from pageable memory") {
    int const host = 1;
    CHECK(cudaMemcpyAsync(a.data, &host, 4, cudaMemcpyHostToDevice, s) ==
          cudaErrorStreamCaptureUnsupported);
  }
  CHECK(capture.status() == cudaStreamCaptureStatusInvalidated);
  CHECK(set(a.data, 2, s) == cudaErrorStreamCaptureInvalidated);
  cudaGraph_t graph = nullptr;
  CHECK(capture.end(&graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  CHECK(set(a.data, 3, s) == cudaSuccess);  // the stream is as before
  cudaGetLastError();
}

TEST_CASE("unsafe calls beside a capture, by its mode") {
  TestStream s;
  SUBCASE("global: in no thread") {
    TestCapture const capture(s, cudaStreamCaptureModeGlobal);
    CHECK(in_thread(allocate_and_free) == cudaErrorStreamCaptureUnsupported);
    CHECK(capture.status() == cudaStreamCaptureStatusInvalidated);
  }
  SUBCASE("global: in its own thread") {
    TestCapture const capture(s, cudaStreamCaptureModeGlobal);
    CHECK(allocate_and_free() == cudaErrorStreamCaptureUnsupported);
    CHECK(capture.status() == cudaStreamCaptureStatusInvalidated);
  }
  SUBCASE("thread-local: in its own thread alone") {
    TestCapture const capture(s, cudaStreamCaptureModeThreadLocal);
    CHECK(in_thread(allocate_and_free) == cudaSuccess);
    CHECK(capture.status() == cudaStreamCaptureStatusActive);
    CHECK(allocate_and_free() == cudaErrorStreamCaptureUnsupported);
    CHECK(capture.status() == cudaStreamCaptureStatusInvalidated);
  }
  SUBCASE("relaxed: everywhere allowed") {
    TestCapture const capture(s, cudaStreamCaptureModeRelaxed);
    CHECK(in_thread(allocate_and_free) == cudaSuccess);
    CHECK(allocate_and_free() == cudaSuccess);
    CHECK(capture.status() == cudaStreamCaptureStatusActive);
  }
  SUBCASE("a thread that relaxes itself") {
    TestCapture const capture(s, cudaStreamCaptureModeGlobal);
    cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
    CHECK(mode == cudaStreamCaptureModeGlobal);
    CHECK(allocate_and_free() == cudaSuccess);
    REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess);
    CHECK(capture.status() == cudaStreamCaptureStatusActive);
  }
  SUBCASE("what is safe") {
    TestCapture const capture(s, cudaStreamCaptureModeGlobal);
    TestEvent event;
    TestStream other;
    CHECK(cudaEventRecord(event, other) == cudaSuccess);
    CHECK(capture.status() == cudaStreamCaptureStatusActive);
    CHECK(cudaEventSynchronize(event) == cudaErrorStreamCaptureUnsupported);
    CHECK(capture.status() == cudaStreamCaptureStatusInvalidated);
  }
  cudaGetLastError();
}

TEST_CASE("the default stream beside a capture of a blocking stream") {
  Ints a;
  TestStream blocking(cudaStreamDefault);
  TestCapture const capture(blocking, cudaStreamCaptureModeThreadLocal);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  CHECK(cudaStreamIsCapturing(nullptr, &status) == cudaErrorStreamCaptureImplicit);
  CHECK(capture.status() == cudaStreamCaptureStatusActive);
  {
    OnDevice const other(1);  // whose default stream has nothing to do with it
    CHECK(cudaStreamSynchronize(nullptr) == cudaErrorStreamCaptureUnsupported);
  }
  SUBCASE("a kernel") { CHECK(set(a.data, 1, nullptr) == cudaErrorStreamCaptureImplicit); }
  SUBCASE("a copy") {
    int host = 0;
    CHECK(cudaMemcpy(&host, a.data, 4, cudaMemcpyDeviceToHost) == cudaErrorStreamCaptureImplicit);
  }
  SUBCASE("a fill") { CHECK(cudaMemset(a.data, 1, 4) == cudaErrorStreamCaptureImplicit); }
  SUBCASE("waiting") { CHECK(cudaStreamSynchronize(nullptr) == cudaErrorStreamCaptureImplicit); }
  CHECK(capture.status() == cudaStreamCaptureStatusInvalidated);
  cudaGetLastError();
}

TEST_CASE("beginning and ending at the wrong time or place") {
  TestStream s;
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal) ==
        cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamEndCapture(s, &graph) == cudaErrorIllegalState);
  TestCapture capture(s, cudaStreamCaptureModeThreadLocal);
  CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal) == cudaErrorIllegalState);
  cudaError_t error = cudaSuccess;
  std::thread([&] { error = cudaStreamEndCapture(s, &graph); }).join();
  CHECK(error == cudaErrorStreamCaptureWrongThread);
  CHECK(capture.end(&graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_CASE("graphs hold copies and fills too") {
  Ints a, b;
  TestStream s;
  TestCapture capture(s, cudaStreamCaptureModeGlobal);
  REQUIRE(cudaMemsetAsync(a.data, 2, Ints::kBytes, s) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(b.data, a.data, Ints::kBytes, cudaMemcpyDeviceToDevice, s) ==
          cudaSuccess);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  REQUIRE(capture.end(&graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(executable, s) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(b.now() == all(0x02020202));
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}
