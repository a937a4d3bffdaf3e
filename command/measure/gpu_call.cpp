#include "command/measure/plan_runner.h"

#include "core/build_config.h"

#include <fmt/core.h>

#include <stdexcept>
#include <vector>

#if MSDA_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace msda::command {

#if MSDA_HAS_CUDA

namespace {

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(fmt::format("{}: {}", what, cudaGetErrorString(error)));
}

}  // namespace

struct GpuCall::State {
  struct Copy {
    void* device;
    void* host;
    std::size_t bytes;
    bool is_result;
  };

  ~State() {
    for (Copy const& copy : copies) cudaFree(copy.device);
    cudaFree(flush);
    if (start != nullptr) cudaEventDestroy(start);
    if (stop != nullptr) cudaEventDestroy(stop);
  }
  void* allocate(void* host, std::size_t bytes, bool is_result) {
    void* device = nullptr;
    check(cudaMalloc(&device, bytes), "allocating device memory");
    copies.push_back({device, host, bytes, is_result});
    return device;
  }

  std::vector<Copy> copies;
  void* flush = nullptr;
  std::size_t flush_bytes = 0;
  cudaEvent_t start = nullptr;
  cudaEvent_t stop = nullptr;
};

GpuCall::GpuCall(std::int32_t device) : state_(std::make_unique<State>()) {
  check(cudaSetDevice(device), "making the device current");
  check(cudaEventCreate(&state_->start), "creating an event");
  check(cudaEventCreate(&state_->stop), "creating an event");
}

GpuCall::~GpuCall() = default;

void* GpuCall::add(void* host, std::size_t bytes, bool is_result) {
  if (bytes == 0) return nullptr;
  void* const device = state_->allocate(host, bytes, is_result);
  check(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "copying to the device");
  return device;
}

void* GpuCall::workspace(std::size_t bytes) {
  return bytes == 0 ? nullptr : state_->allocate(nullptr, bytes, false);
}

void GpuCall::fetch() {
  check(cudaDeviceSynchronize(), "running the kernel");
  for (State::Copy const& copy : state_->copies) {
    if (!copy.is_result) continue;
    check(cudaMemcpy(copy.host, copy.device, copy.bytes, cudaMemcpyDeviceToHost),
          "copying from the device");
  }
}

void GpuCall::start_timing(std::size_t flush_bytes) {
  if (state_->flush_bytes < flush_bytes) {
    cudaFree(state_->flush);
    state_->flush = nullptr;
    check(cudaMalloc(&state_->flush, flush_bytes), "allocating device memory");
    state_->flush_bytes = flush_bytes;
  }
  if (flush_bytes > 0) check(cudaMemsetAsync(state_->flush, 0, flush_bytes), "flushing the caches");
  check(cudaEventRecord(state_->start), "recording an event");
}

double GpuCall::stop_timing() {
  check(cudaEventRecord(state_->stop), "recording an event");
  check(cudaEventSynchronize(state_->stop), "running the kernel");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, state_->start, state_->stop), "reading the time");
  return 1e3 * static_cast<double>(milliseconds);
}

#else

struct GpuCall::State {};

GpuCall::GpuCall(std::int32_t) { throw std::runtime_error("this command was built without CUDA"); }
GpuCall::~GpuCall() = default;
void* GpuCall::add(void*, std::size_t, bool) { return nullptr; }
void* GpuCall::workspace(std::size_t) { return nullptr; }
void GpuCall::fetch() {}
void GpuCall::start_timing(std::size_t) {}
double GpuCall::stop_timing() { return 0; }

#endif

}  // namespace msda::command
