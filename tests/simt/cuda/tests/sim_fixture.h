// Kernels and handles for the tests of the simulated CUDA library.
#pragma once

#include "cuda/sim_control.h"
#include "runtime/device_calls.h"
#include "runtime/kernel_launch.h"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace simt::cuda::test {

inline constexpr unsigned kThreads = 32;  // of a block

// One thread for each of `count` elements.
inline int index() { return static_cast<int>(self->block.x * kThreads + self->thread.x); }
inline void set_kernel(int* to, int value, int count) {
  int const i = index();
  if (i < count) to[i] = value;
}
inline void add_kernel(int* to, int value, int count) {
  int const i = index();
  if (i < count) to[i] += value;
}
inline void copy_kernel(int* to, const int* from, int count) {
  int const i = index();
  if (i < count) to[i] = from[i];
}

inline constexpr int kCount = 64;

struct LaunchShape {
  unsigned grid = 2, block = kThreads, cluster = 1;
  std::size_t shared = 0;
  bool overlaps = false;
};

// CUDA's launch attributes.
struct LaunchConfig {
  explicit LaunchConfig(LaunchShape const& shape, cudaStream_t stream = nullptr) {
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {shape.cluster, 1, 1};
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = shape.overlaps ? 1 : 0;
    config.gridDim = dim3(shape.grid);
    config.blockDim = dim3(shape.block);
    config.dynamicSmemBytes = shape.shared;
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = 2;
  }
  LaunchConfig(LaunchConfig const&) = delete;
  operator const cudaLaunchConfig_t*() const { return &config; }

  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
};

template <typename... Parameters>
cudaError_t launch(LaunchShape const& shape, cudaStream_t stream, void (*kernel)(Parameters...),
                   std::type_identity_t<Parameters>... arguments) {
  void* pointers[] = {&arguments..., nullptr};
  return cudaLaunchKernelExC(LaunchConfig(shape, stream), kernel_entry(kernel), pointers);
}

inline cudaError_t set(int* to, int value, cudaStream_t stream) {
  return launch({}, stream, set_kernel, to, value, kCount);
}
inline cudaError_t add(int* to, int value, cudaStream_t stream) {
  return launch({}, stream, add_kernel, to, value, kCount);
}

// kCount integers on the device.
struct Ints {
  Ints() { REQUIRE(cudaMalloc(reinterpret_cast<void**>(&data), kBytes) == cudaSuccess); }
  ~Ints() { cudaFree(data); }
  Ints(Ints const&) = delete;

  // As they are, without waiting for anything: what the device's memory holds now.
  std::vector<int> now() const;
  std::vector<int> read() const {
    std::vector<int> values(kCount);
    REQUIRE(cudaMemcpy(values.data(), data, kBytes, cudaMemcpyDeviceToHost) == cudaSuccess);
    return values;
  }
  static constexpr std::size_t kBytes = kCount * sizeof(int);
  int* data = nullptr;
};

inline std::vector<int> all(int value) { return std::vector<int>(kCount, value); }

struct TestStream {
  explicit TestStream(unsigned flags = cudaStreamNonBlocking) {
    REQUIRE(cudaStreamCreateWithFlags(&handle, flags) == cudaSuccess);
  }
  ~TestStream() { cudaStreamDestroy(handle); }
  TestStream(TestStream const&) = delete;
  operator cudaStream_t() const { return handle; }
  cudaStream_t handle = nullptr;
};

struct TestEvent {
  explicit TestEvent(unsigned flags = cudaEventDefault) {
    REQUIRE(cudaEventCreateWithFlags(&handle, flags) == cudaSuccess);
  }
  ~TestEvent() { cudaEventDestroy(handle); }
  TestEvent(TestEvent const&) = delete;
  operator cudaEvent_t() const { return handle; }
  cudaEvent_t handle = nullptr;
};

// Makes a device current for a while.
struct OnDevice {
  explicit OnDevice(int device) {
    REQUIRE(cudaGetDevice(&before) == cudaSuccess);
    REQUIRE(cudaSetDevice(device) == cudaSuccess);
  }
  ~OnDevice() { cudaSetDevice(before); }
  OnDevice(OnDevice const&) = delete;
  int before = 0;
};

// A capture that is ended, whatever became of it.
struct TestCapture {
  TestCapture(cudaStream_t with, cudaStreamCaptureMode mode) : stream(with) {
    REQUIRE(cudaStreamBeginCapture(stream, mode) == cudaSuccess);
  }
  ~TestCapture() {
    if (!is_open) return;
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
  }
  TestCapture(TestCapture const&) = delete;
  cudaError_t end(cudaGraph_t* graph) {
    is_open = false;
    return cudaStreamEndCapture(stream, graph);
  }
  cudaStreamCaptureStatus status() const {
    cudaStreamCaptureStatus result = cudaStreamCaptureStatusNone;
    REQUIRE(cudaStreamIsCapturing(stream, &result) == cudaSuccess);
    return result;
  }
  cudaStream_t stream;
  bool is_open = true;
};

}  // namespace simt::cuda::test
