#include "support/empty_kernel.h"

#include "support/launch.cuh"

#include <cuda_runtime.h>

namespace msda::test {
namespace {

// About as many as a kernel of the library has.
struct Parameters {
  char bytes[1024];
};

__global__ void empty(const __grid_constant__ Parameters) {}

}  // namespace

bool launch_empty_kernel(void* stream) {
  static Parameters const parameters{};
  return launch(empty, 1, 32, static_cast<cudaStream_t>(stream), parameters) == cudaSuccess;
}

}  // namespace msda::test
