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

// A softmax is the same whatever number, its shift, is taken from all logits of a row. Powers of
// large logits lose digits, or are not finite, without one; but few rows have such, and lanes take
// as long to find a row's largest logit as to find its powers. So the shift is the largest logit
// where that is above 8 or below -8, else 0, and kernels first look at what rules a shift out: each
// lane's largest logit, or the sum of the powers.
inline constexpr float kLargestLogit = 8.0f;

// Powers of -inf are 0 with any shift.
__device__ __forceinline__ bool largest_needs_shift(float largest) {
  return !(largest <= kLargestLogit && (largest >= -kLargestLogit || largest == -INFINITY));
}
// The shift of a row whose largest logit this is.
__device__ __forceinline__ float shift_by_largest(float largest) {
  return largest_needs_shift(largest) ? largest : 0.0f;
}
// Whether the largest of K logits may need one: their powers add up to at least the largest one and
// at most K times that. Bounds are e^-8 and e^8, but for what roundings leave open.
__device__ __forceinline__ bool sum_may_need_shift(float sum, float K) {
  return !(sum >= K * 3.36e-4f && sum <= 2975.0f);  // of no number, too
}

// 1 / x to a unit in the last place.
__device__ __forceinline__ float reciprocal(float x) {
  float const guess = ptx::reciprocal_approximate(x);
  return fmaf(guess, fmaf(-x, guess, 1.0f), guess);
}

}  // namespace msda
