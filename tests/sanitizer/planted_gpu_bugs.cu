// Bugs that the GPU sanitizers have to find, so that their silence about the kernels says
// something: planted_gpu_bugs memcheck|racecheck|initcheck|synccheck.

#include "kernels/common/ptx.cuh"
#include "support/launch.cuh"

#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

using msda::test::launch;

namespace {

__global__ void read_out_of_bounds(const int* from, int* to) {
  to[threadIdx.x] = from[threadIdx.x + 64];
}

__global__ void race(int* to) {
  MSDA_SHARED(int, shared, [64]);
  shared[threadIdx.x] = static_cast<int>(threadIdx.x);
  // __syncthreads() is missing here.
  to[threadIdx.x] = shared[63 - threadIdx.x];
}

__global__ void read_uninitialised(const int* from, int* to) {
  to[threadIdx.x] = from[threadIdx.x];
}

__global__ void divergent_barrier(int* to) {
  if (threadIdx.x < 40) __syncthreads();
  to[threadIdx.x] = 1;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const tool = argc > 1 ? argv[1] : "";
  int* from = nullptr;
  int* to = nullptr;
  if (cudaMalloc(&from, 64 * sizeof(int)) != cudaSuccess) return 2;
  if (cudaMalloc(&to, 64 * sizeof(int)) != cudaSuccess) return 2;
  if (std::strcmp(tool, "initcheck") != 0 && cudaMemset(from, 0, 64 * sizeof(int)) != cudaSuccess) {
    return 2;
  }
  if (std::strcmp(tool, "memcheck") == 0) {
    launch(read_out_of_bounds, 1, 64, nullptr, from, to);
  } else if (std::strcmp(tool, "racecheck") == 0) {
    launch(race, 1, 64, nullptr, to);
  } else if (std::strcmp(tool, "initcheck") == 0) {
    launch(read_uninitialised, 1, 64, nullptr, from, to);
  } else if (std::strcmp(tool, "synccheck") == 0) {
    launch(divergent_barrier, 1, 64, nullptr, to);
  } else {
    std::fprintf(stderr, "usage: planted_gpu_bugs memcheck|racecheck|initcheck|synccheck\n");
    return 2;
  }
  cudaDeviceSynchronize();
  return 0;
}
