// Fused input: the softmax of a row, chunk by chunk. Points weigh powers, exp(logit - shift), and
// the row's sums are divided by the sum of the powers in the end. The shift is the largest logit of
// the first chunk; a chunk that has one far above raises it, and what has been added up so far is
// multiplied by exp(old shift - new shift). After Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018.
#pragma once

#include "kernels/common/powers.cuh"
#include "kernels/rows/warp_rows.cuh"

#include <cfloat>

namespace msda::persistent {

template <class Config>
class RowSoftmax {
 public:
  // Before a row's first chunk, whose logits these are.
  __device__ __forceinline__ void start(float const (&logits)[Config::kGroup]) {
    shift_ = shift_for(largest_of_row(logits));
    sum_ = 0.0f;
  }

  // The logits of a chunk become powers. Where the shift moves, `multiply` is called with what
  // everything that has been added up has to be multiplied by.
  template <class Fn>
  __device__ __forceinline__ void to_powers(float (&logits)[Config::kGroup], Fn multiply) {
    float exponents[Config::kGroup];
    float largest = -INFINITY;
#pragma unroll
    for (int t = 0; t < Config::kGroup; ++t) {
      exponents[t] = exponent(logits[t]);
      largest = fmaxf(largest, exponents[t]);
    }
    if (__any_sync(0xffffffffu, largest > kMaxExponent)) {
      // The shift moves in the rows that have such an exponent; the others' factor is the
      // power of 0, which is 1.
      float const top = largest_of_row(logits), before = shift_;
      if (exponent(top) > kMaxExponent) shift_ = shift_for(top);
      float const factor = power(__fsub_rn(before, shift_));
      sum_ = __fmul_rn(sum_, factor);
      multiply(factor);
#pragma unroll
      for (int t = 0; t < Config::kGroup; ++t) exponents[t] = exponent(logits[t]);
    }
#pragma unroll
    for (int t = 0; t < Config::kGroup; ++t) {
      logits[t] = power(exponents[t]);
      sum_ = __fadd_rn(sum_, logits[t]);
    }
  }

  __device__ __forceinline__ float shift() const { return shift_; }
  __device__ __forceinline__ static float power_of(float logit, float shift) {
    return power(exponent(logit, shift));
  }

  // The factor of a row's sums behind the last chunk. The sum of powers is 1 to K times the
  // largest one, or 0, infinite, or no number: then so is the result.
  __device__ __forceinline__ float inverse_of_powers() const {
    float sum = sum_;
    for_lanes_of_row<Config>(
        [&](int distance) { sum = __fadd_rn(sum, __shfl_xor_sync(0xffffffffu, sum, distance)); });
    float const guess = ptx::reciprocal_approximate(sum);
    return fmaf(guess, fmaf(-sum, guess, 1.0f), guess);
  }

 private:
  // The largest logit of all lanes of a row.
  __device__ __forceinline__ static float largest_of_row(float const (&logits)[Config::kGroup]) {
    float largest = logits[0];
#pragma unroll
    for (int t = 1; t < Config::kGroup; ++t) largest = fmaxf(largest, logits[t]);
    for_lanes_of_row<Config>([&](int distance) {
      largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, distance));
    });
    return largest;
  }

  // With fp16 sums to the base 2. Rounded once: the error of the shift is the same factor for
  // all powers of a row.
  __device__ __forceinline__ static float exponent(float logit, float shift) {
    return Config::kFp16Sums ? fmaf(logit, kLog2OfE, -shift) : __fsub_rn(logit, shift);
  }
  __device__ __forceinline__ float exponent(float logit) const { return exponent(logit, shift_); }
  // With fp16 sums to 2^-17 or so, nothing below 2^-126.
  __device__ __forceinline__ static float power(float exponent) {
    if constexpr (!Config::kFp16Sums) return power_of_e(exponent);
    return ptx::exp2_approximate(exponent);
  }
  // The shift for a largest logit: finite, and where it is rounded not so large that exponents have
  // no digits. Powers of larger logits are infinite, or no number.
  __device__ __forceinline__ static float shift_for(float logit) {
    constexpr float kLargest = Config::kFp16Sums ? 1 << 20 : FLT_MAX;
    float const within = fminf(fmaxf(logit, -kLargest), kLargest);
    return Config::kFp16Sums ? within * kLog2OfE : within;
  }

  // Larger exponents move the shift: a power of this, times a value, fits the sums.
  static constexpr float kMaxExponent = Config::kFp16Sums ? 3.0f : 16.0f;

  float shift_;       // with fp16 sums in powers of 2
  float sum_ = 0.0f;  // of the lane's own points
};

}  // namespace msda::persistent
