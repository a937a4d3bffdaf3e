// The lanes of a warp, and the channels that a lane has of a row of values or of grad_output, as
// they lie in memory.
#pragma once

#include "kernels/common/ptx.cuh"
#include "kernels/common/vecs.cuh"
#include "kernels/points/points.h"

namespace msda::points {

inline constexpr unsigned kAllLanes = 0xffffffffu;

__device__ __forceinline__ int lane_of() { return static_cast<int>(threadIdx.x % kWarp); }
__device__ __forceinline__ int warp_of() { return static_cast<int>(threadIdx.x / kWarp); }

// n / d of any 32 bits, where `by` is (2^32 - 1) / d: the upper half of their product is the
// quotient or one less.
__device__ __forceinline__ std::uint32_t quotient(std::uint32_t n, std::uint32_t d,
                                                  std::uint32_t by) {
  std::uint32_t const least = __umulhi(n, by);
  return n - least * d >= d ? least + 1 : least;
}

__device__ __forceinline__ std::uint32_t lanes_before() {
  return (1u << static_cast<unsigned>(lane_of())) - 1u;
}

// Sums over `lanes` neighbouring lanes, a power of two of them; each gets the result.
__device__ __forceinline__ float sum_of_lanes(float x, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
    x += __shfl_xor_sync(kAllLanes, x, distance);
  }
  return x;
}

// Does the same to several numbers, whose shuffles alternate: each waits for its last one.
template <int kCount>
__device__ __forceinline__ void sum_over_lanes(float (&x)[kCount], int lanes) {
#pragma unroll 1
  for (int distance = lanes / 2; distance > 0; distance /= 2) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) x[j] += __shfl_xor_sync(kAllLanes, x[j], distance);
  }
}

// Sum over this lane and those before it.
template <typename T>
__device__ __forceinline__ T running_sum(T x) {
#pragma unroll
  for (int distance = 1; distance < kWarp; distance *= 2) {
    T const other = __shfl_up_sync(kAllLanes, x, static_cast<unsigned>(distance));
    if (lane_of() >= distance) x += other;
  }
  return x;
}

// The sum over all threads before this one. `sums` has kWarp + 1 numbers in shared memory, the last
// of which becomes the total. All threads of the block call it, at most kWarp warps.
__device__ __forceinline__ std::uint32_t sum_before(std::uint32_t x, std::uint32_t* sums) {
  int const warps = static_cast<int>(blockDim.x / kWarp);
  std::uint32_t const running = running_sum(x);
  if (lane_of() == kWarp - 1) sums[warp_of()] = running;
  __syncthreads();
  if (warp_of() == 0) {
    std::uint32_t const of_warp = lane_of() < warps ? sums[lane_of()] : 0;
    std::uint32_t const until = running_sum(of_warp);
    __syncwarp();
    sums[lane_of()] = until - of_warp;
    if (lane_of() == kWarp - 1) sums[kWarp] = until;
  }
  __syncthreads();
  return sums[warp_of()] + running - x;
}

// Calls fn with the lanes that a row of `head_dim` channels takes, at most kMax, as a constant.
template <int kMax, int kLanes = 1, class Fn>
void with_lanes(std::int32_t head_dim, Fn fn) {
  if constexpr (kLanes < kMax) {
    if (head_dim > kLanes * kChannelsOfLane) return with_lanes<kMax, 2 * kLanes>(head_dim, fn);
  }
  fn(std::integral_constant<int, kLanes>());
}

// The ways to load rows: at multiples of 16 bytes, in vectors; at any address, element by element,
// to the same words; or of any type, whatever kType is, element by element as float32.
enum class Loads { vectors, elements, any };

template <ValueType kType, Loads kLoads>
struct Channels {
  static constexpr int kBytes = sizeof(typename ValueTraits<kType>::Element);
  static constexpr bool kNarrow = kLoads != Loads::any && kBytes == 2;  // two in a word
  static constexpr int kWords = kNarrow ? kChannelsOfLane / 2 : kChannelsOfLane;
  std::uint32_t word[kWords];

  __device__ __forceinline__ static Channels zeros() { return {}; }

  // Loads from element `index` of an array of `dtype` on.
  __device__ __forceinline__ static Channels load(msda_dtype dtype, const void* array,
                                                  std::int64_t index) {
    if constexpr (kLoads == Loads::vectors) {
      return load_at(static_cast<const char*>(array) + index * kBytes);
    } else {
      return load_elements(dtype, array, index);
    }
  }

  __device__ __forceinline__ static Channels load_elements(msda_dtype dtype, const void* array,
                                                           std::int64_t index) {
    Channels channels;
    if constexpr (kNarrow) {
      auto const* const words16 = static_cast<const std::uint16_t*>(array) + index;
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
        channels.word[i] = words16[2 * i] | static_cast<std::uint32_t>(words16[2 * i + 1]) << 16;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kChannelsOfLane; ++i) {
        channels.word[i] = __float_as_uint(load_element<float>(dtype, array, index + i));
      }
    }
    return channels;
  }

  // Loads vectors.
  __device__ __forceinline__ static Channels load_at(const char* at) {
    Channels channels;
#pragma unroll
    for (int i = 0; i < kWords; i += 4) {
      std::uint32_t words[4];
      ptx::load_global(at + 4 * i, words);
#pragma unroll
      for (int j = 0; j < 4; ++j) channels.word[i + j] = words[j];
    }
    return channels;
  }

  __device__ __forceinline__ float operator[](int channel) const {
    if constexpr (!kNarrow) {
      return __uint_as_float(word[channel]);
    } else if constexpr (kType == ValueType::bf16) {
      std::uint32_t const pair = word[channel / 2];
      return __uint_as_float(channel % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
    } else {
      __half2 const pair = half2_of(word[channel / 2]);
      return channel % 2 == 0 ? __low2float(pair) : __high2float(pair);
    }
  }
};

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

}  // namespace msda::points
