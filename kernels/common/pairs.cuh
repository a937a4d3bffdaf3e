// Two or four neighbouring elements of an array at once.
#pragma once

#include "kernels/common/vecs.cuh"

namespace msda {

// Two NaN of F16 or BF16.
inline constexpr std::uint32_t kNanPair = 0x7fff7fff;

// Loads two neighbours of an array of F32, F16 or BF16. `aligned`: they lie at a multiple of their
// bytes.
__device__ __forceinline__ float2 load_pair(msda_dtype dtype, const void* array, std::int64_t index,
                                            bool aligned) {
  if (!aligned) return {load_narrow(dtype, array, index), load_narrow(dtype, array, index + 1)};
  if (dtype == MSDA_DTYPE_F32) {
    return *reinterpret_cast<const float2*>(static_cast<const float*>(array) + index);
  }
  return pair_of(dtype, *reinterpret_cast<const std::uint32_t*>(
                            static_cast<const std::uint16_t*>(array) + index));
}
__device__ __forceinline__ void store_pair(msda_dtype dtype, void* array, std::int64_t index,
                                           float2 const& x, bool aligned) {
  if (!aligned) {
    store_element(dtype, array, index, x.x);
    store_element(dtype, array, index + 1, x.y);
  } else if (dtype == MSDA_DTYPE_F32) {
    *reinterpret_cast<float2*>(static_cast<float*>(array) + index) = x;
  } else {
    *reinterpret_cast<std::uint32_t*>(static_cast<std::uint16_t*>(array) + index) =
        pack_pair(dtype, x.x, x.y);
  }
}

// Stores four sums into an array of any type.
__device__ __forceinline__ void store_four(msda_dtype dtype, void* array, std::int64_t index,
                                           float4 const& x, bool aligned) {
  if (!aligned || dtype == MSDA_DTYPE_F64) {
    store_element(dtype, array, index, x.x);
    store_element(dtype, array, index + 1, x.y);
    store_element(dtype, array, index + 2, x.z);
    store_element(dtype, array, index + 3, x.w);
  } else if (dtype == MSDA_DTYPE_F32) {
    *reinterpret_cast<float4*>(static_cast<float*>(array) + index) = x;
  } else {
    *reinterpret_cast<uint2*>(static_cast<std::uint16_t*>(array) + index) =
        make_uint2(pack_pair(dtype, x.x, x.y), pack_pair(dtype, x.z, x.w));
  }
}

__device__ __forceinline__ void add(float4& sum, float4 const& x) {
  sum.x += x.x;
  sum.y += x.y;
  sum.z += x.z;
  sum.w += x.w;
}

}  // namespace msda
