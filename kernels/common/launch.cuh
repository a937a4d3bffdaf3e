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
template <auto kKernel>
void load_kernel() {
  cudaFuncAttributes attributes{};
  cuda::check(cudaFuncGetAttributes(&attributes, kKernel), "loading the kernel");
  cudaKernel_t handle = nullptr;
  cuda::check(cudaGetKernel(&handle, reinterpret_cast<const void*>(kKernel)),
              "looking for the kernel");
  kernel_handle<kKernel>().store(handle, std::memory_order_release);
}

// A kernel that a plan has loaded.
template <auto kKernel, typename... Arguments>
void launch_kernel(std::int64_t blocks, std::int32_t threads, cudaStream_t stream,
                   Arguments const&... arguments) {
  static_assert(std::is_same_v<decltype(kKernel), void (*)(Arguments...)>,
                "the arguments have the types that the kernel takes");
  if (blocks == 0) return;
  void* pointers[] = {const_cast<Arguments*>(&arguments)...};
  void* const kernel = kernel_handle<kKernel>().load(std::memory_order_acquire);
  cuda::check(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)),
                               dim3(static_cast<unsigned>(threads)), pointers, 0, stream),
              "launching the kernel");
}

}  // namespace msda
