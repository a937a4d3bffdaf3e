// Loading and launching kernels: what fails becomes a status.
#pragma once

#include "core/cuda.h"
#include "kernels/common/kernel_entry.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace msda {

// Loads a kernel onto the current device now, so that its first launch can be inside a capture.
// `shared_bytes`: the most of dynamic shared memory that a launch will ask for.
template <typename... Parameters>
Kernel<Parameters...> load_kernel(void (*kernel)(Parameters...), std::int64_t shared_bytes = 0) {
  auto const* const entry = kernel_entry(kernel);
  cudaFuncAttributes attributes{};
  cuda::check(cudaFuncGetAttributes(&attributes, entry), "loading the kernel");
  if (shared_bytes > 0) {
    cuda::check(cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(shared_bytes)),
                "asking for shared memory");
  }
  Kernel<Parameters...> loaded;
  cuda::check(cudaGetKernel(&loaded.handle, entry), "looking for the kernel");
  loaded.code_sm = attributes.ptxVersion;
  return loaded;
}

// Code for 8.0 that runs on a 9.0 has no griddepcontrol.wait.
inline constexpr std::int32_t kFirstSmToOverlap = 90;

struct LaunchOptions {
  std::int64_t blocks = 0;
  std::int32_t threads = 0;         // of a block
  std::size_t shared_bytes = 0;     // of a block, beyond what the kernel declares
  std::int32_t cluster_blocks = 1;  // neighbours that form a cluster; Device::max_cluster_blocks
  bool overlaps_previous = false;   // begins while the stream's previous kernel still runs, whose
                                    // results it awaits with griddepcontrol.wait, if it can
};

template <typename... Parameters>
void launch_kernel(Kernel<Parameters...> kernel, LaunchOptions const& options, cudaStream_t stream,
                   std::type_identity_t<Parameters> const&... parameters) {
  if (options.blocks == 0) return;
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(options.blocks));
  config.blockDim = dim3(static_cast<unsigned>(options.threads));
  config.dynamicSmemBytes = options.shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  if (options.cluster_blocks > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(options.cluster_blocks), 1, 1};
  }
  if (options.overlaps_previous && kernel.code_sm >= kFirstSmToOverlap) {
    cudaLaunchAttribute& overlap = attributes[config.numAttrs++];
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
  }
  void* pointers[] = {const_cast<Parameters*>(&parameters)...};
  cuda::check(cudaLaunchKernelExC(&config, kernel.handle, pointers), "launching the kernel");
}

}  // namespace msda
