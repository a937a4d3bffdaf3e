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
};

// No number in float32, float16 and bfloat16.
inline constexpr std::uint32_t kNotANumber = 0x7fff7fff;

// kWords words of 32 bits, or the 16 bits of half of one.
template <int kBytes>
__device__ __forceinline__ void stream(const char* at, std::uint32_t* to) {
  if constexpr (kBytes == 32) {
    stream<16>(at, to);
    stream<16>(at + 16, to + 4);
  } else if constexpr (kBytes == 16) {
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
    static_assert(kBytes == 2, "2 to 32 bytes");
    std::uint16_t half;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.u16 %0, [%1];" : "=h"(half) : "l"(at));
    to[0] = half;
  }
}

// 32 bytes of each lane. The lanes of a quarter warp start with different halves, so that they meet
// different banks.
__device__ __forceinline__ void stream_turned(const char* at, std::uint32_t* to, int lane) {
  bool const turned = lane & 4;
  std::uint32_t a[4], b[4];
  stream<16>(at + (turned ? 16 : 0), a);
  stream<16>(at + (turned ? 0 : 16), b);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[i] = turned ? b[i] : a[i];
    to[4 + i] = turned ? a[i] : b[i];
  }
}

// Element by element, for tensors or rows that are not aligned.
template <int kBatch>
__device__ __forceinline__ void read_narrow(Params const& p, std::int64_t first, int count,
                                            Inputs<kBatch>& inputs) {
  auto const half = [](const void* array, std::int64_t index) -> std::uint32_t {
    return __ldg(static_cast<const std::uint16_t*>(array) + index);
  };
#pragma unroll
  for (int i = 0; i < kBatch; ++i) {
    if (i >= count) break;
    std::int64_t const at = first + i;
    if (p.coord_dtype == MSDA_F32) {
      inputs.coord[2 * i] = __ldg(static_cast<const std::uint32_t*>(p.coord) + 2 * at);
      inputs.coord[2 * i + 1] = __ldg(static_cast<const std::uint32_t*>(p.coord) + 2 * at + 1);
    } else {
      inputs.coord[i] = half(p.coord, 2 * at) | half(p.coord, 2 * at + 1) << 16;
    }
    if (p.weight_dtype == MSDA_F32) {
      inputs.weight[i] = __ldg(static_cast<const std::uint32_t*>(p.weight) + at);
    } else {
      inputs.weight[i / 2] |= half(p.weight, at) << (i % 2 * 16);
    }
  }
}

// The points from number `first` of all rows on; `count` of them are there.
template <class Config>
__device__ __forceinline__ Inputs<Config::kBatch> read_inputs(Params const& p, Work const& work,
                                                              std::int64_t first, int count,
                                                              int lane) {
  constexpr int kBatch = Config::kBatch;
  Inputs<kBatch> inputs;
#pragma unroll
  for (int i = 0; i < 2 * kBatch; ++i) inputs.coord[i] = kNotANumber;
#pragma unroll
  for (int i = 0; i < kBatch; ++i) inputs.weight[i] = 0;
  if (count <= 0) return inputs;
  if (!work.wide_inputs) {
    read_narrow(p, first, count, inputs);
    return inputs;
  }
  const char* const coord = static_cast<const char*>(p.coord);
  const char* const weight = static_cast<const char*>(p.weight);
  if (p.coord_dtype != MSDA_F32) {
    stream<4 * kBatch>(coord + first * 4, inputs.coord);
  } else if constexpr (kBatch == 4) {
    stream_turned(coord + first * 8, inputs.coord, lane);
  } else {
    stream<8 * kBatch>(coord + first * 8, inputs.coord);
  }
  if (p.weight_dtype == MSDA_F32) {
    stream<4 * kBatch>(weight + first * 4, inputs.weight);
  } else {
    stream<2 * kBatch>(weight + first * 2, inputs.weight);
  }
  return inputs;
}

// Into L2.
__device__ __forceinline__ void prefetch_inputs(Params const& p, Work const& work,
                                                std::int64_t first) {
  if (!work.wide_inputs) return;
  const char* const coord =
      static_cast<const char*>(p.coord) + first * (p.coord_dtype == MSDA_F32 ? 8 : 4);
  const char* const weight =
      static_cast<const char*>(p.weight) + first * (p.weight_dtype == MSDA_F32 ? 4 : 2);
  asm volatile("prefetch.global.L2 [%0];" ::"l"(coord));
  asm volatile("prefetch.global.L2 [%0];" ::"l"(weight));
}

__device__ __forceinline__ float2 pair_of(msda_dtype dtype, std::uint32_t word) {
  if (dtype == MSDA_BF16) {
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  }
  __half2 pair;
  memcpy(&pair, &word, sizeof(pair));
  return __half22float2(pair);
}

template <int kBatch>
__device__ __forceinline__ Batch<kBatch> to_points(Inputs<kBatch> const& inputs,
                                                   msda_dtype coord_dtype,
                                                   msda_dtype weight_dtype) {
  Batch<kBatch> points;
  if (coord_dtype == MSDA_F32) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      points.x[i] = __uint_as_float(inputs.coord[2 * i]);
      points.y[i] = __uint_as_float(inputs.coord[2 * i + 1]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      float2 const xy = pair_of(coord_dtype, inputs.coord[i]);
      points.x[i] = xy.x;
      points.y[i] = xy.y;
    }
  }
  if (weight_dtype == MSDA_F32) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) points.weight[i] = __uint_as_float(inputs.weight[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      float2 const pair = pair_of(weight_dtype, inputs.weight[i / 2]);
      points.weight[i] = i % 2 == 0 ? pair.x : pair.y;
    }
  }
  return points;
}

}  // namespace msda::persistent
