// A kernel that uses an instruction without a twin; tests/CMakeLists.txt expects that it does not
// compile.
#include "kernels/common/ptx.cuh"

#ifndef MSDA_SIMULATED  // as in kernels/common/ptx.cuh
namespace msda::ptx {
__device__ __forceinline__ void instruction_without_twin() { asm volatile("nanosleep.u32 20;"); }
}  // namespace msda::ptx
#endif

namespace msda::test {

__global__ void use_instruction(std::uint32_t* to) {
  ptx::instruction_without_twin();
  std::uint32_t n = threadIdx.x;
  ptx::pin(n);  // which has one
  to[threadIdx.x] = n;
}

}  // namespace msda::test
