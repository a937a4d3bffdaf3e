// Coordinates and weights on their way from memory to registers: streamed past L1, which the values
// need, and converted when they are used, not when they are loaded.
#pragma once

#include "kernels/common/elements.cuh"
#include "kernels/persistent/persistent.h"

namespace msda::persistent {

// kBatch points as they lie in memory; those of 16 bits in the first words.
template <int kBatch>
struct Inputs {
  std::uint32_t coord[2 * kBatch];
  std::uint32_t weight[kBatch];
};

// The same as numbers.
template <int kBatch>
struct Batch {
  float x[kBatch];
  float y[kBatch];
  float weight[kBatch];

  // Those behind the first kCount to the front.
  template <int kCount>
  __device__ __forceinline__ void advance() {
#pragma unroll
    for (int i = kCount; i < kBatch; ++i) {
      x[i - kCount] = x[i];
      y[i - kCount] = y[i];
      weight[i - kCount] = weight[i];
    }
  }
};

// kBytes as words of 32 bits; of 2 bytes, the lower half of one.
template <int kBytes>
__device__ __forceinline__ void stream(const char* at, std::uint32_t* to) {
  if constexpr (kBytes == 16) {
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(at));
  } else if constexpr (kBytes == 8) {
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v2.u32 {%0, %1}, [%2];"
                 : "=r"(to[0]), "=r"(to[1])
                 : "l"(at));
  } else if constexpr (kBytes == 4) {
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.u32 %0, [%1];" : "=r"(to[0]) : "l"(at));
  } else {
    static_assert(kBytes == 2, "2 to 16 bytes");
    std::uint16_t half;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.u16 %0, [%1];" : "=h"(half) : "l"(at));
    to[0] = half;
  }
}

// Two elements, each by itself.
template <int kElementBytes>
__device__ __forceinline__ void stream_pair(const char* at, std::uint32_t* to) {
  std::uint32_t second;
  stream<kElementBytes>(at, to);
  stream<kElementBytes>(at + kElementBytes, &second);
  if constexpr (kElementBytes == 4) {
    to[1] = second;
  } else {
    to[0] |= second << 16;
  }
}

// Element by element, for tensors or rows that are not aligned. What is behind the row repeats its
// last point.
template <int kBatch>
__device__ __forceinline__ void read_narrow(Params const& p, std::uint32_t row_start, int k,
                                            Inputs<kBatch>& inputs) {
  auto const half = [](const void* array, std::int64_t index) -> std::uint32_t {
    return __ldg(static_cast<const std::uint16_t*>(array) + index);
  };
  auto const word = [](const void* array, std::int64_t index) -> std::uint32_t {
    return __ldg(static_cast<const std::uint32_t*>(array) + index);
  };
#pragma unroll
  for (int i = 0; i < kBatch; ++i) {
    std::int64_t const at =
        row_start + static_cast<std::uint32_t>(min(k + i, static_cast<int>(p.point_total) - 1));
    if (p.coord_dtype == MSDA_F32) {
      inputs.coord[2 * i] = word(p.coord, 2 * at);
      inputs.coord[2 * i + 1] = word(p.coord, 2 * at + 1);
    } else {
      inputs.coord[i] = half(p.coord, 2 * at) | half(p.coord, 2 * at + 1) << 16;
    }
    if (p.weight_dtype == MSDA_F32) {
      inputs.weight[i] = word(p.weight, at);
    } else {
      std::uint32_t const bits = half(p.weight, at) << (i % 2 * 16);
      inputs.weight[i / 2] = i % 2 == 0 ? bits : inputs.weight[i / 2] | bits;
    }
  }
}

// Whether a lane has the two halves of its 32 bytes of coordinates in turn: the lanes of a quarter
// warp begin with different halves, so that they meet different banks.
template <int kBatch>
__device__ __forceinline__ bool halves_are_turned(bool wide_inputs, msda_dtype coord_dtype,
                                                  unsigned lane) {
  return kBatch == 4 && wide_inputs && coord_dtype == MSDA_F32 && (lane & 4) != 0;
}

// Points k to k + kBatch - 1 of the row whose first point is number row_start of all.
template <int kBatch, InputTypes kTypes>
__device__ __forceinline__ Inputs<kBatch> read_inputs(Params const& p, Work const& work,
                                                      std::uint32_t row_start, int k,
                                                      unsigned lane) {
  Inputs<kBatch> inputs;
  if (kTypes == inputs_any && !work.wide_inputs) {
    read_narrow(p, row_start, k, inputs);
    return inputs;
  }
  // Wide inputs come in whole batches.
  std::uint32_t const first =
      row_start + static_cast<std::uint32_t>(min(k, static_cast<int>(p.point_total) - kBatch));
  const char* const coord = static_cast<const char*>(p.coord);
  if (kTypes == inputs_any && p.coord_dtype != MSDA_F32) {
    stream<4 * kBatch>(coord + std::uint64_t{first} * 4, inputs.coord);
  } else if constexpr (kBatch == 4) {
    std::uint32_t const half = first / 2 + (lane & 4) / 4;  // of two points, at an even place
    stream<16>(coord + std::uint64_t{half} * 16, inputs.coord);
    stream<16>(coord + std::uint64_t{half ^ 1} * 16, inputs.coord + 4);
  } else {
    stream<8 * kBatch>(coord + std::uint64_t{first} * 8, inputs.coord);
  }
  const char* const weight = static_cast<const char*>(p.weight);
  if (kTypes == inputs_f32 || p.weight_dtype == MSDA_F32) {
    stream<4 * kBatch>(weight + std::uint64_t{first} * 4, inputs.weight);
  } else {
    stream<2 * kBatch>(weight + std::uint64_t{first} * 2, inputs.weight);
  }
  return inputs;
}

__device__ __forceinline__ float2 pair_of(msda_dtype dtype, std::uint32_t word) {
  if (dtype == MSDA_BF16) {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  }
  return __half22float2(halves_of(word));
}

template <int kBatch>
__device__ __forceinline__ void weights_of(std::uint32_t const (&words)[kBatch], msda_dtype dtype,
                                           float (&weight)[kBatch]) {
  if (dtype == MSDA_F32) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) weight[i] = __uint_as_float(words[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      float2 const pair = pair_of(dtype, words[i / 2]);
      weight[i] = i % 2 == 0 ? pair.x : pair.y;
    }
  }
}

template <int kBatch>
__device__ __forceinline__ Batch<kBatch> to_points(Inputs<kBatch> const& inputs,
                                                   msda_dtype coord_dtype, msda_dtype weight_dtype,
                                                   bool turned) {
  Batch<kBatch> points;
  if (coord_dtype == MSDA_F32) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      int const other = (i + kBatch / 2) % kBatch;
      points.x[i] = __uint_as_float(turned ? inputs.coord[2 * other] : inputs.coord[2 * i]);
      points.y[i] = __uint_as_float(turned ? inputs.coord[2 * other + 1] : inputs.coord[2 * i + 1]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      float2 const xy = pair_of(coord_dtype, inputs.coord[i]);
      points.x[i] = xy.x;
      points.y[i] = xy.y;
    }
  }
  weights_of(inputs.weight, weight_dtype, points.weight);
  return points;
}

}  // namespace msda::persistent
