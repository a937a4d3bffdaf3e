// Loading and launching kernels, and asking about them: what fails becomes a status.
#pragma once

#include "core/cuda.h"
#include "kernels/common/params.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <type_traits>

namespace msda {

// Calls fn with std::true_type or std::false_type, for a bool that is known at run time and has to
// be when kernels are compiled; with_bools() with both.
template <class Fn>
void with_bool(bool value, Fn fn) {
  if (value) {
    fn(std::true_type());
  } else {
    fn(std::false_type());
  }
}

template <class Fn>
void with_bools(Fn fn) {
  fn(std::false_type());
  fn(std::true_type());
}

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
  std::int64_t shared_bytes = 0;    // of a block, beyond what the kernel declares
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
  config.dynamicSmemBytes = static_cast<std::size_t>(options.shared_bytes);
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

// Launches a kernel that waits for the previous grid itself, as all kernels of families do.
template <typename... Parameters>
void launch_overlapping(Kernel<Parameters...> kernel, LaunchOptions options, cudaStream_t stream,
                        std::type_identity_t<Parameters> const&... parameters) {
  options.overlaps_previous = true;
  launch_kernel(kernel, options, stream, parameters...);
}

// Does nothing where there is no array.
inline void clear(void* array, std::int64_t bytes, const char* what, cudaStream_t stream) {
  if (array == nullptr || bytes == 0) return;
  cuda::check(cudaMemsetAsync(array, 0, static_cast<std::size_t>(bytes), stream), what);
}

// The clusters with the threads, shared memory and cluster_blocks of `options` that the current
// device runs at a time; 0 where it runs none. The kernel may have sizes that are not portable from
// here on.
template <typename... Parameters>
std::int32_t max_active_clusters(void (*kernel)(Parameters...), LaunchOptions const& options) {
  constexpr std::int32_t kPortableBlocks = 8;
  auto const* const entry = kernel_entry(kernel);
  if (options.cluster_blocks > kPortableBlocks) {
    cuda::check(cudaFuncSetAttribute(entry, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
                "asking for large clusters");
  }
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(options.cluster_blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(options.cluster_blocks));
  config.blockDim = dim3(static_cast<unsigned>(options.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(options.shared_bytes);
  config.attrs = &cluster;
  config.numAttrs = 1;
  int count = 0;
  cuda::check(cudaOccupancyMaxActiveClusters(&count, entry, &config), "counting clusters");
  return count;
}

}  // namespace msda
