// A vec: the channels of one pixel that one lane loads at once, 16 or 8 bytes. Loading, summing and
// storing them.
#pragma once

#include "kernels/common/elements.cuh"
#include "kernels/common/ptx.cuh"

namespace msda {

// Config of the templates here says what is loaded:
//   kType          the value type
//   kElementBytes  its size
//   kVecBytes      of a vec, 16 or 8
//   kChannels      of a vec
//   kAligned       vecs and tensors lie at multiples of 16 bytes (of kVecBytes if that is less)

// Words of 32 bits as they lie in memory.
template <int kBytes>
struct Vec {
  std::uint32_t word[kBytes / 4];
};

template <class Config>
__device__ __forceinline__ Vec<Config::kVecBytes> load_vec(const char* at) {
  Vec<Config::kVecBytes> vec;
  if constexpr (!Config::kAligned) {
    // The address is that of an element; sizes below 4 bytes are put together in pairs or fours.
    using Bits = std::conditional_t<
        Config::kElementBytes == 4, std::uint32_t,
        std::conditional_t<Config::kElementBytes == 2, std::uint16_t, std::uint8_t>>;
    constexpr int kPerWord = 4 / Config::kElementBytes;
#pragma unroll
    for (int w = 0; w < Config::kVecBytes / 4; ++w) {
      vec.word[w] = 0;
#pragma unroll
      for (int i = 0; i < kPerWord; ++i) {
        vec.word[w] |=
            static_cast<std::uint32_t>(__ldg(reinterpret_cast<const Bits*>(at) + w * kPerWord + i))
            << (32 / kPerWord * i % 32);
      }
    }
  } else if constexpr (Config::kVecBytes == 16) {
    ptx::load_global(at, vec.word);
  } else {
    uint2 const v = __ldg(reinterpret_cast<const uint2*>(at));
    vec = {{v.x, v.y}};
  }
  return vec;
}

// Four F8_E4M3 as two pairs of float16, exactly. By ptx.cuh: cuda_fp8.h moves the upper two down
// first.
struct Fp16Pairs {
  __half2 pair[2];
};
__device__ __forceinline__ Fp16Pairs unpack_f8(std::uint32_t word) {
  std::uint32_t lower, upper;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  ptx::convert_f8(word, lower, upper);
#else
  auto const convert = [](std::uint32_t bytes) {
    return bits_of(
        __half2(__nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bytes), __NV_E4M3)));
  };
  lower = convert(word & 0xffffu);
  upper = convert(word >> 16);
#endif
  return {{half2_of(lower), half2_of(upper)}};
}

// Two numbers of F16 or BF16, the first in the lower bits.
__device__ __forceinline__ float2 pair_of(msda_dtype dtype, std::uint32_t bits) {
  if (dtype == MSDA_DTYPE_BF16) {
    return {__uint_as_float(bits << 16), __uint_as_float(bits & 0xffff0000u)};
  }
  return __half22float2(half2_of(bits));
}

// sum[c] += weight * channel c
template <class Config>
__device__ __forceinline__ void multiply_add(float (&sum)[Config::kChannels], float weight,
                                             Vec<Config::kVecBytes> const& vec) {
#pragma unroll
  for (int w = 0; w < Config::kVecBytes / 4; ++w) {
    std::uint32_t const word = vec.word[w];
    if constexpr (Config::kType == ValueType::f32) {
      sum[w] = fmaf(weight, __uint_as_float(word), sum[w]);
    } else if constexpr (Config::kType == ValueType::f8) {
      Fp16Pairs const pairs = unpack_f8(word);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float2 const v = __half22float2(pairs.pair[i]);
        sum[4 * w + 2 * i] = fmaf(weight, v.x, sum[4 * w + 2 * i]);
        sum[4 * w + 2 * i + 1] = fmaf(weight, v.y, sum[4 * w + 2 * i + 1]);
      }
    } else {
      float2 v;
      if constexpr (Config::kType == ValueType::bf16) {
        v = {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
      } else {
        v = __half22float2(half2_of(word));
      }
      sum[2 * w] = fmaf(weight, v.x, sum[2 * w]);
      sum[2 * w + 1] = fmaf(weight, v.y, sum[2 * w + 1]);
    }
  }
}

// As multiply_add(), in float16, of F16 or F8_E4M3; the pair is the weight twice.
template <class Config>
__device__ __forceinline__ void multiply_add_fp16(__half2 (&sum)[Config::kChannels / 2],
                                                  __half2 weight,
                                                  Vec<Config::kVecBytes> const& vec) {
#pragma unroll
  for (int w = 0; w < Config::kVecBytes / 4; ++w) {
    std::uint32_t const word = vec.word[w];
    if constexpr (Config::kType == ValueType::f8) {
      Fp16Pairs const pairs = unpack_f8(word);
#pragma unroll
      for (int i = 0; i < 2; ++i) sum[2 * w + i] = __hfma2(weight, pairs.pair[i], sum[2 * w + i]);
    } else {
      sum[w] = __hfma2(weight, half2_of(word), sum[w]);
    }
  }
}

// Two floats rounded to 16 bits.
__device__ __forceinline__ std::uint32_t pack_pair(msda_dtype dtype, float low, float high) {
  std::uint32_t word;
  if (dtype == MSDA_DTYPE_F16) {
    __half2 const pair = __floats2half2_rn(low, high);
    memcpy(&word, &pair, sizeof(word));
  } else {
    __nv_bfloat162 const pair = __floats2bfloat162_rn(low, high);
    memcpy(&word, &pair, sizeof(word));
  }
  return word;
}

// `aligned`: the array, and every vec of it, to the size of a vec.
template <class Config>
__device__ __forceinline__ void store_vec(msda_dtype dtype, void* array, std::int64_t index,
                                          float const (&x)[Config::kChannels], bool aligned) {
  constexpr int C = Config::kChannels;
  if (!aligned || dtype == MSDA_DTYPE_F64) {
#pragma unroll
    for (int c = 0; c < C; ++c) store_element(dtype, array, index + c, x[c]);
  } else if (dtype == MSDA_DTYPE_F32) {
    auto* const to = reinterpret_cast<float4*>(static_cast<float*>(array) + index);
#pragma unroll
    for (int i = 0; i < C / 4; ++i) {
      __stcs(to + i, make_float4(x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]));
    }
  } else {
    auto* const to = static_cast<std::uint16_t*>(array) + index;
    if constexpr (C == 4) {
      __stcs(reinterpret_cast<uint2*>(to),
             make_uint2(pack_pair(dtype, x[0], x[1]), pack_pair(dtype, x[2], x[3])));
    } else {
#pragma unroll
      for (int i = 0; i < C; i += 8) {
        __stcs(
            reinterpret_cast<uint4*>(to + i),
            make_uint4(pack_pair(dtype, x[i], x[i + 1]), pack_pair(dtype, x[i + 2], x[i + 3]),
                       pack_pair(dtype, x[i + 4], x[i + 5]), pack_pair(dtype, x[i + 6], x[i + 7])));
      }
    }
  }
}

}  // namespace msda
