#include "support/result_hash.h"

#include "support/launch.cuh"

#include <cuda_runtime.h>

namespace msda::test {
namespace {

constexpr unsigned kThreads = 256, kMaxBlocks = 64;

// splitmix64's finalizer: S. Vigna, public domain.
__device__ std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Each byte counts with its place. Sums of integers do not depend on their order.
__global__ void add_hash(const unsigned char* data, std::size_t bytes, std::uint64_t salt,
                         unsigned long long* sum) {
  unsigned long long own = 0;
  std::size_t const stride = std::size_t{gridDim.x} * kThreads;
  for (std::size_t i = std::size_t{blockIdx.x} * kThreads + threadIdx.x; i < bytes; i += stride) {
    own += mixed(mixed(salt + i) + data[i]);
  }
  atomicAdd(sum, own);
}

}  // namespace

bool launch_result_hash(const void* data, std::size_t bytes, std::uint64_t salt, std::uint64_t* sum,
                        void* stream) {
  static_assert(sizeof(std::uint64_t) == sizeof(unsigned long long), "what atomicAdd takes");
  if (bytes == 0) return true;
  std::size_t const wanted = (bytes + kThreads - 1) / kThreads;
  auto const blocks = static_cast<unsigned>(wanted < kMaxBlocks ? wanted : kMaxBlocks);
  return launch(add_hash, blocks, kThreads, static_cast<cudaStream_t>(stream),
                static_cast<const unsigned char*>(data), bytes, salt,
                reinterpret_cast<unsigned long long*>(sum)) == cudaSuccess;
}

}  // namespace msda::test
