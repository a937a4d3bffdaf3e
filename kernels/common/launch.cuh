// Launching: every launch is checked, and its error becomes a status.
#pragma once

#include "core/cuda.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

namespace msda {

// Blocks of one launch; kernels whose work may need more walk over it in strides of the grid.
inline constexpr std::int64_t kMaxBlocks = std::int64_t{1} << 30;

inline std::int64_t blocks_for(std::int64_t items, std::int64_t items_a_block) {
  return std::min((items + items_a_block - 1) / items_a_block, kMaxBlocks);
}

template <typename... Arguments>
void launch_kernel(void (*kernel)(Arguments...), std::int64_t blocks, std::int32_t threads,
                   cudaStream_t stream, Arguments const&... arguments) {
  if (blocks == 0) return;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.stream = stream;
  cuda::check(cudaLaunchKernelEx(&config, kernel, arguments...), "launching the kernel");
}

// Loads a kernel onto the current device now, so that its first launch can be inside a capture.
template <typename Kernel>
void load_kernel(Kernel* kernel) {
  cudaFuncAttributes attributes{};
  cuda::check(cudaFuncGetAttributes(&attributes, kernel), "loading the kernel");
}

}  // namespace msda
