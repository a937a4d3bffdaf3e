#include "support/shared_garbage.h"

#include "kernels/common/params.h"
#include "kernels/common/ptx.cuh"

#include <cuda_runtime.h>

#include <cstdint>

namespace msda::test {
namespace {

constexpr unsigned kThreads = 256;

__global__ void fill(std::uint32_t words) {
  MSDA_DYNAMIC_SHARED(shared);
  auto* const to = reinterpret_cast<volatile std::uint32_t*>(shared);
  for (std::uint32_t i = threadIdx.x; i < words; i += blockDim.x) to[i] = ~0u;
}

}  // namespace

// A block takes all that a block may have, so that each multiprocessor has one.
bool fill_shared_memory(void* stream) {
  int device = 0, blocks = 0, bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) !=
          cudaSuccess) {
    return false;
  }
  const void* const kernel = kernel_entry(fill);
  auto words = static_cast<std::uint32_t>(bytes) / 4;
  void* arguments[] = {&words};
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) ==
             cudaSuccess &&
         cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)), dim3(kThreads), arguments,
                          static_cast<std::size_t>(bytes),
                          static_cast<cudaStream_t>(stream)) == cudaSuccess;
}

}  // namespace msda::test
