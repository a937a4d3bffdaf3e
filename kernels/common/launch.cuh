// Launching: every launch is checked, and its error becomes a status.
#pragma once

#include "core/cuda.h"

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <type_traits>

namespace msda {

// What the run-time library calls a kernel: found once, when a plan loads it, not at every launch.
template <auto kKernel>
std::atomic<cudaKernel_t>& kernel_handle() {
  static std::atomic<cudaKernel_t> handle{nullptr};
  return handle;
}

// Loads a kernel onto the current device now, so that its first launch can be inside a capture.
// `shared_bytes`: the most of shared memory that a launch will ask for.
template <auto kKernel>
void load_kernel(std::int64_t shared_bytes = 0) {
  cudaFuncAttributes attributes{};
  cuda::check(cudaFuncGetAttributes(&attributes, kKernel), "loading the kernel");
  if (shared_bytes > 0) {
    cuda::check(cudaFuncSetAttribute(kKernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(shared_bytes)),
                "asking for shared memory");
  }
  cudaKernel_t handle = nullptr;
  cuda::check(cudaGetKernel(&handle, reinterpret_cast<const void*>(kKernel)),
              "looking for the kernel");
  kernel_handle<kKernel>().store(handle, std::memory_order_release);
}

struct LaunchShape {
  std::int64_t blocks;
  std::int32_t threads;
  std::size_t shared_bytes = 0;  // beyond what the kernel declares
};

// A kernel that a plan has loaded.
template <auto kKernel, typename... Arguments>
void launch_kernel(LaunchShape shape, cudaStream_t stream, Arguments const&... arguments) {
  static_assert(std::is_same_v<decltype(kKernel), void (*)(Arguments...)>,
                "the arguments have the types that the kernel takes");
  if (shape.blocks == 0) return;
  void* pointers[] = {const_cast<Arguments*>(&arguments)...};
  void* const kernel = kernel_handle<kKernel>().load(std::memory_order_acquire);
  cuda::check(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(shape.blocks)),
                               dim3(static_cast<unsigned>(shape.threads)), pointers,
                               shape.shared_bytes, stream),
              "launching the kernel");
}

}  // namespace msda
