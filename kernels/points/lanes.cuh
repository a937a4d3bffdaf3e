// The channels that a lane has of a row of values or of grad_output, as they lie in memory.
#pragma once

#include "kernels/common/pairs.cuh"
#include "kernels/common/ptx.cuh"
#include "kernels/common/warp.cuh"
#include "kernels/points/points.h"

namespace msda::points {

// n / d of any 32 bits, where `by` is (2^32 - 1) / d: the upper half of their product is the
// quotient or one less.
__device__ __forceinline__ std::uint32_t quotient(std::uint32_t n, std::uint32_t d,
                                                  std::uint32_t by) {
  std::uint32_t const least = __umulhi(n, by);
  return n - least * d >= d ? least + 1 : least;
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

}  // namespace msda::points
