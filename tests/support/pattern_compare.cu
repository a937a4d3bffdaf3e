#include "support/pattern_compare.h"

#include "support/launch.cuh"

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace msda::test {
namespace {

constexpr unsigned kBlocks = 4096, kThreads = 256;

// As atomics take them.
struct Counters {
  unsigned long long count;
  unsigned long long first;
};

template <typename Bits>
__global__ void compare(const Bits* data, std::size_t elements, const Bits* pattern,
                        std::size_t period, Counters* counters) {
  constexpr Bits kMagnitude = static_cast<Bits>(-1) >> 1;
  std::size_t const stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    Bits const is = data[i], should_be = pattern[i % period];
    if (is == should_be || ((is | should_be) & kMagnitude) == 0) continue;
    atomicAdd(&counters->count, 1ull);
    atomicMin(&counters->first, static_cast<unsigned long long>(i));
  }
}

void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string("comparing on the device: ") + cudaGetErrorString(error));
}

}  // namespace

PatternDifferences compare_with_pattern(const void* data, std::size_t elements, const void* pattern,
                                        std::size_t period, std::size_t element_bytes) {
  Counters* counters = nullptr;
  Counters result{0, ~0ull};
  require(cudaMalloc(&counters, sizeof(Counters)));
  cudaError_t error = cudaMemcpy(counters, &result, sizeof(result), cudaMemcpyHostToDevice);
  if (error == cudaSuccess) {
    if (element_bytes == 2) {
      error = launch(compare<unsigned short>, kBlocks, kThreads, nullptr,
                     static_cast<const unsigned short*>(data), elements,
                     static_cast<const unsigned short*>(pattern), period, counters);
    } else {
      error =
          launch(compare<unsigned>, kBlocks, kThreads, nullptr, static_cast<const unsigned*>(data),
                 elements, static_cast<const unsigned*>(pattern), period, counters);
    }
  }
  if (error == cudaSuccess) {
    error = cudaMemcpy(&result, counters, sizeof(result), cudaMemcpyDeviceToHost);
  }
  cudaFree(counters);
  require(error);
  return {result.count, result.count == 0 ? 0 : result.first};
}

}  // namespace msda::test
