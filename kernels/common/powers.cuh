// The powers of a softmax in float32.
#pragma once

#include "kernels/common/ptx.cuh"

namespace msda {

inline constexpr float kLog2OfE = 1.44269504f;

// e^x to (8 + |x|) 2^-24 of it, in 3 instructions where expf() takes 8. It is the square of its
// root, since ex2.approx has no result below 2^-126.
__device__ __forceinline__ float power_of_e(float x) {
  float const root = ptx::exp2_approximate(x * (kLog2OfE / 2));
  return root * root;
}

}  // namespace msda
