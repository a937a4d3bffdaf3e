// Twins of conversions and approximations.
#pragma once

#include "runtime/device_calls.h"

#include <cuda_fp8.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace msda::ptx {

inline std::uint32_t f8_pair(std::uint32_t bytes) {
  __half2_raw const pair =
      __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(bytes), __NV_E4M3);
  return pair.x | std::uint32_t{pair.y} << 16;
}
inline void convert_f8(std::uint32_t word, std::uint32_t& lower, std::uint32_t& upper) {
  lower = f8_pair(word & 0xffffu);
  upper = f8_pair(word >> 16);
}

inline const char* add_wide(const char* at, std::uint64_t bytes) { return at + bytes; }

inline const char* row_at(const char* first, std::uint32_t row, std::uint32_t stride_bytes) {
  return first + std::uint64_t{row} * stride_bytes;
}

// Subnormal results are 0 (.ftz).
inline float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
inline float exp2_approximate(float x) { return flushed(std::exp2(flushed(x))); }
inline float reciprocal_approximate(float x) { return flushed(1.0f / flushed(x)); }

// The compiler of the host is not to be held back.
inline void pin(std::uint32_t&) {}
inline void pin(const char*&) {}

}  // namespace msda::ptx
