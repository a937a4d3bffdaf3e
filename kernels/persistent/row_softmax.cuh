// Fused input: the softmax of a row, chunk by chunk. Points weigh powers, exp(logit - shift), and
// the row's sums are divided by the sum of the powers in the end. The shift is 0, or the largest
// logit of the first chunk where that is far from 0; a chunk that has one far above raises it, and
// what has been added up so far is multiplied by exp(old shift - new shift). After Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018.
#pragma once

#include "kernels/common/powers.cuh"
#include "kernels/rows/warp_rows.cuh"

#include <cfloat>

namespace msda::persistent {

template <class Config>
class RowSoftmax {
 public:
  // Before a row's first chunk, whose logits these are: chooses the shift. Lanes look at their own
  // logits first, since the largest of a row takes shuffles.
  __device__ __forceinline__ void start(float const (&logits)[Config::kGroup]) {
    shift_ = sum_ = 0.0f;
    float const own = largest_of(logits);
    if (!__any_sync(0xffffffffu, needs_shift(own))) return;
    float const top = largest_of_row(own);
    if (needs_shift(top)) shift_ = shift_for(top);
  }

  // The logits of a chunk become powers. Where a chunk but the first moves the shift, `multiply` is
  // called with what everything that has been added up has to be multiplied by.
  template <class Fn>
  __device__ __forceinline__ void to_powers(float (&logits)[Config::kGroup], bool is_first,
                                            Fn multiply) {
    float exponents[Config::kGroup];
#pragma unroll
    for (int t = 0; t < Config::kGroup; ++t) exponents[t] = exponent(logits[t]);
    if (!is_first) raise_shift(logits, exponents, multiply);
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
  // Moves the shift in the rows that have an exponent far above it; the others' factor is the power
  // of 0, which is 1.
  template <class Fn>
  __device__ __forceinline__ void raise_shift(float const (&logits)[Config::kGroup],
                                              float (&exponents)[Config::kGroup], Fn multiply) {
    if (!__any_sync(0xffffffffu, largest_of(exponents) > kMaxExponent)) return;
    float const top = largest_of_row(largest_of(logits)), before = shift_;
    if (exponent(top) > kMaxExponent) shift_ = shift_for(top);
    float const factor = power(__fsub_rn(before, shift_));
    sum_ = __fmul_rn(sum_, factor);
    multiply(factor);
#pragma unroll
    for (int t = 0; t < Config::kGroup; ++t) exponents[t] = exponent(logits[t]);
  }
  __device__ __forceinline__ static float largest_of(float const (&logits)[Config::kGroup]) {
    float largest = logits[0];
#pragma unroll
    for (int t = 1; t < Config::kGroup; ++t) largest = fmaxf(largest, logits[t]);
    return largest;
  }
  // The largest number of all lanes of a row.
  __device__ __forceinline__ static float largest_of_row(float largest) {
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

  // Whether a row with this largest logit in its first chunk is shifted by it. With fp16 sums
  // powers are to be numbers of 11 bits, and to fit the sums.
  __device__ __forceinline__ static bool needs_shift(float largest) {
    if constexpr (!Config::kFp16Sums) return largest_needs_shift(largest);
    return !(largest >= -6.0f && largest <= 4.0f);
  }
  // Larger exponents move the shift: a power of this, times a value, fits the sums.
  static constexpr float kMaxExponent = Config::kFp16Sums ? 6.0f : 16.0f;

  float shift_;       // with fp16 sums in powers of 2
  float sum_ = 0.0f;  // of the lane's own points
};

}  // namespace msda::persistent
