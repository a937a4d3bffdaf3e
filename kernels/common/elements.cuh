// Element types in device code: loading and storing one element of any of them.
#pragma once

#include "kernels/common/params.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <type_traits>

namespace msda {

// The type of a value in memory, and that of sums of values.
template <typename T>
struct TraitsOf {
  using Element = T;
  using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
};
template <ValueType kType>
struct ValueTraits;
template <>
struct ValueTraits<ValueType::f64> : TraitsOf<double> {};
template <>
struct ValueTraits<ValueType::f32> : TraitsOf<float> {};
template <>
struct ValueTraits<ValueType::f16> : TraitsOf<__half> {};
template <>
struct ValueTraits<ValueType::bf16> : TraitsOf<__nv_bfloat16> {};
template <>
struct ValueTraits<ValueType::f8> : TraitsOf<__nv_fp8_e4m3> {};

template <typename Real, typename T>
__device__ __forceinline__ Real convert(T x) {
  if constexpr (sizeof(T) >= 4) {
    return static_cast<Real>(x);
  } else {
    return static_cast<Real>(static_cast<float>(x));
  }
}

// Two float16 as they lie in memory.
__device__ __forceinline__ std::uint32_t bits_of(__half2 pair) {
  std::uint32_t bits;
  memcpy(&bits, &pair, sizeof(bits));
  return bits;
}
__device__ __forceinline__ __half2 half2_of(std::uint32_t bits) {
  __half2 pair;
  memcpy(&pair, &bits, sizeof(pair));
  return pair;
}

// Element `index` of an array whose type is known at run time; scaled types are values' alone.
template <typename Real>
__device__ __forceinline__ Real load_element(msda_dtype dtype, const void* array,
                                             std::int64_t index) {
  switch (dtype) {
    case MSDA_DTYPE_F64:
      return convert<Real>(static_cast<const double*>(array)[index]);
    case MSDA_DTYPE_F16:
      return convert<Real>(static_cast<const __half*>(array)[index]);
    case MSDA_DTYPE_BF16:
      return convert<Real>(static_cast<const __nv_bfloat16*>(array)[index]);
    default:
      return convert<Real>(static_cast<const float*>(array)[index]);
  }
}

// The F32, F16 or BF16 number of these bits.
__device__ __forceinline__ float narrow_of(msda_dtype dtype, std::uint32_t bits) {
  if (dtype == MSDA_DTYPE_F32) return __uint_as_float(bits);
  if (dtype == MSDA_DTYPE_BF16) return __uint_as_float(bits << 16);
  return __half2float(__ushort_as_half(static_cast<std::uint16_t>(bits)));
}

// Loads an element of an array of F32, F16 or BF16.
__device__ __forceinline__ float load_narrow(msda_dtype dtype, const void* array,
                                             std::int64_t index) {
  if (dtype == MSDA_DTYPE_F32) return static_cast<const float*>(array)[index];
  return narrow_of(dtype, static_cast<const std::uint16_t*>(array)[index]);
}

// Loads four neighbouring elements of an array of F32, F16 or BF16; those beyond the `left` ones
// that there are become -inf. `aligned`: the first lies at a multiple of the bytes of four.
__device__ __forceinline__ void load_four(msda_dtype dtype, const void* array, std::int64_t index,
                                          std::int32_t left, bool aligned, float* x) {
  if (aligned && left >= 4) {
    if (dtype == MSDA_DTYPE_F32) {
      float4 const four =
          __ldg(reinterpret_cast<const float4*>(static_cast<const float*>(array) + index));
      x[0] = four.x;
      x[1] = four.y;
      x[2] = four.z;
      x[3] = four.w;
    } else {
      uint2 const four =
          __ldg(reinterpret_cast<const uint2*>(static_cast<const std::uint16_t*>(array) + index));
      x[0] = narrow_of(dtype, four.x & 0xffffu);
      x[1] = narrow_of(dtype, four.x >> 16);
      x[2] = narrow_of(dtype, four.y & 0xffffu);
      x[3] = narrow_of(dtype, four.y >> 16);
    }
    return;
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) x[j] = -INFINITY;
#pragma unroll 1
  for (int i = 0; i < min(left, 4); ++i) {
    float const element = load_narrow(dtype, array, index + i);
#pragma unroll
    for (int j = 0; j < 4; ++j) x[j] = i == j ? element : x[j];
  }
}

// Stores an element of an array of F32, F16 or BF16.
__device__ __forceinline__ void store_narrow(msda_dtype dtype, void* array, std::int64_t index,
                                             float x) {
  if (dtype == MSDA_DTYPE_F32) {
    static_cast<float*>(array)[index] = x;
  } else if (dtype == MSDA_DTYPE_BF16) {
    static_cast<__nv_bfloat16*>(array)[index] = __float2bfloat16_rn(x);
  } else {
    static_cast<__half*>(array)[index] = __float2half_rn(x);
  }
}

template <typename Real>
__device__ __forceinline__ void store_element(msda_dtype dtype, void* array, std::int64_t index,
                                              Real x) {
  switch (dtype) {
    case MSDA_DTYPE_F64:
      static_cast<double*>(array)[index] = static_cast<double>(x);
      break;
    case MSDA_DTYPE_F16:
      if constexpr (sizeof(Real) == 8) {
        static_cast<__half*>(array)[index] = __double2half(x);
      } else {
        static_cast<__half*>(array)[index] = __float2half_rn(x);
      }
      break;
    case MSDA_DTYPE_BF16:
      if constexpr (sizeof(Real) == 8) {
        static_cast<__nv_bfloat16*>(array)[index] = __double2bfloat16(x);
      } else {
        static_cast<__nv_bfloat16*>(array)[index] = __float2bfloat16_rn(x);
      }
      break;
    default:
      static_cast<float*>(array)[index] = static_cast<float>(x);
  }
}

}  // namespace msda
