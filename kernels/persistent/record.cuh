// A located point: which pixels it lies between and what they weigh, and its way through shared
// memory from the lane that locates it to those that load its pixels.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/persistent/config.cuh"

#include <algorithm>

namespace msda::persistent {

// One located point: two neighbouring pixels of a row, and the two below.
struct alignas(16) Record {
  std::uint32_t first;  // the first pixel of the upper row, in vecs
  float fraction;       // of the second
  float upper;          // attention weight times the fraction of the upper row
  float lower;
};

// The same in 8 bytes, for fp16 sums. A fraction is not negative: its sign is the last bit of what
// is above.
struct alignas(8) Fp16Record {
  std::uint32_t
      pixel;           // the first one's number in its level; below: fraction, float16 but its sign
  std::uint32_t rows;  // upper and lower, float16

  static constexpr int kFractionBits = 15;

  // By parity that bit says that the second pixel is to the left of the first one.
  template <bool kByParity>
  __device__ __forceinline__ static Fp16Record of(std::uint32_t number, bool turned, float fraction,
                                                  float upper, float lower) {
    std::uint32_t const above = kByParity ? 2 * number + (turned ? 1 : 0) : number;
    // As one of a pair: a conversion to a single float16 is slow.
    return {(above << kFractionBits) + bits_of(__floats2half2_rn(fraction, 0.0f)),
            bits_of(__floats2half2_rn(upper, lower))};
  }
  template <bool kByParity>
  __device__ __forceinline__ std::uint32_t number() const {
    return pixel >> (kByParity ? kFractionBits + 1 : kFractionBits);
  }
  __device__ __forceinline__ bool is_turned() const { return (pixel & 1u << kFractionBits) != 0; }
  __device__ __forceinline__ __half2 fraction() const {
    return __habs2(__low2half2(half2_of(pixel)));
  }
};

template <class Config>
using RecordOf = std::conditional_t<Config::kFp16Sums, Fp16Record, Record>;

// A warp's records: those of the slots' first lanes, one after the other, then those of the second
// ones, so that all slots read theirs at once. The rows are set off against each other, so that
// neighbouring lanes of a slot write to different banks.
template <class Config>
struct RecordTable {
  static constexpr int kRecordBytes = sizeof(RecordOf<Config>);
  static constexpr int kSlots = 32 / Config::kLanes;
  static constexpr int kOffset = Config::kInLines ? kRecordBytes
                                 : Config::kLanes == 1 || kSlots == 1
                                     ? 0
                                     : std::max(16, 128 / Config::kLanes);
  static constexpr int kRowBytes = kSlots * kRecordBytes + kOffset;  // of the slots' same lane
  static constexpr int kRows = Config::kInLines ? Config::kChunk : Config::kLanes;
  static constexpr int kBytes = kRows * kRowBytes;
};

// In shared memory, by its address there.
__device__ __forceinline__ void put_record(std::uint32_t at, Record const& record) {
  ptx::store_shared(at, record.first, __float_as_uint(record.fraction),
                    __float_as_uint(record.upper), __float_as_uint(record.lower));
}
__device__ __forceinline__ void put_record(std::uint32_t at, Fp16Record const& record) {
  ptx::store_shared(at, record.pixel, record.rows);
}
__device__ __forceinline__ void get_record(std::uint32_t at, Fp16Record& record) {
  std::uint32_t words[2];
  ptx::load_shared(at, words);
  record = {words[0], words[1]};
}
__device__ __forceinline__ void get_record(std::uint32_t at, Record& record) {
  std::uint32_t words[4];
  ptx::load_shared(at, words);
  record = {words[0], __uint_as_float(words[1]), __uint_as_float(words[2]),
            __uint_as_float(words[3])};
}

// What the four pixels of a point weigh, in float16.
struct Fp16Weights {
  __half2 first;  // of a row: the upper and the lower one's
  __half2 second;

  __device__ __forceinline__ Fp16Weights(__half2 rows, __half2 fraction)
      : first(rows), second(__hmul2_rn(rows, fraction)) {
    first = __hsub2_rn(rows, second);
  }
  __device__ __forceinline__ Fp16Weights(__half2 rows, __half2 of_first, __half2 of_second)
      : first(__hmul2_rn(rows, of_first)), second(__hmul2_rn(rows, of_second)) {}
  __device__ __forceinline__ __half2 of(int corner) const {
    __half2 const row = corner % 2 == 0 ? first : second;
    return corner / 2 == 0 ? __low2half2(row) : __high2half2(row);
  }
};

// A fraction in units of 2^-11: float16 holds it, and what it leaves of 1, exactly.
__device__ __forceinline__ float in_fp16_units(float fraction) {
  return __fsub_rn(__fadd_rn(fraction, 4096.0f), 4096.0f);
}

// A point on an axis of n pixels, between pixels `base` and base + 1, both of which are there where
// n is 2 or more; where n is 1 the second is taken to be the first, and weighs nothing. Where the
// point is beside the map, or half so, the weights say it.
struct Between {
  std::int32_t base;
  float from_base;  // the point's distance from it: below 0 and from 1 on it is beside the two
  float fraction;   // of pixel base + 1
  float inside;     // what is left of the weight; 0 also where x is no number
};

// kTwo: n is 2 or more.
// x and n are in units of 2^22 pixels. 2^-127 of that is the least number for each pixel, and a
// multiple of the least number has the bits of an integer: rounding down, the way to integers and
// back cost an instruction less each. What is below 0 is a negative integer, what is no number one
// of either sign.
template <bool kTwo = false>
__device__ __forceinline__ Between between(float x, float n) {
  constexpr float kToBits = 0x1p-127f, kFromBits = 0x1p127f, kPixels = 1.0f / kPixel;
  std::int32_t const last = __float_as_int(fmaf(n, kToBits, -2.0f * kPixel * kToBits));
  std::int32_t const base = __vimin_s32_relu(__float_as_int(__fmul_rd(x, kToBits)), last);
  float const distance = fmaf(__int_as_float(base), -kFromBits, x);
  float fraction = __saturatef(distance * kPixels);
  if constexpr (!kTwo) fraction = fminf(fraction, fmaf(n, kPixels, -1.0f));
  return {base, distance * kPixels, fraction,
          __saturatef(1.0f - fabsf(fmaf(distance, kPixels, -fraction)))};
}

}  // namespace msda::persistent
