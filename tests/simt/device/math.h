// Arithmetic and memory intrinsics that NVIDIA's headers have no path of the host for.
#pragma once

#include "runtime/device_calls.h"

#include <cuda_fp16.h>

#include <algorithm>
#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>

inline float __fmul_rn(float a, float b) { return a * b; }
// Rounded down.
inline float __fmul_rd(float a, float b) {
  double const product = static_cast<double>(a) * static_cast<double>(b);  // exact
  auto const nearest = static_cast<float>(product);
  return static_cast<double>(nearest) > product ? std::nextafterf(nearest, -INFINITY) : nearest;
}
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fadd_rd(float a, float b) {
  int const mode = std::fegetround();
  std::fesetround(FE_DOWNWARD);
  // Volatile: the compiler leaves the addition between the calls.
  volatile float x = a, y = b;
  volatile float const sum = x + y;
  std::fesetround(mode);
  return sum;
}
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
// NaN gives 0.
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

inline float __uint_as_float(std::uint32_t x) { return std::bit_cast<float>(x); }
inline float __int_as_float(std::int32_t x) { return std::bit_cast<float>(x); }
inline std::uint32_t __float_as_uint(float x) { return std::bit_cast<std::uint32_t>(x); }
inline std::int32_t __float_as_int(float x) { return std::bit_cast<std::int32_t>(x); }

// 0 where the lesser one is below it.
inline int __vimin_s32_relu(int a, int b) { return std::max(std::min(a, b), 0); }

inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<std::uint32_t>(x)); }
inline int __popc(std::uint32_t x) { return std::popcount(x); }
inline std::uint32_t __umulhi(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(std::uint64_t{a} * b >> 32);
}

// Loads and stores past or through caches; the hardware traps where they are not aligned.
template <typename T>
T __ldg(const T* at, simt::Where where = simt::Where::current()) {
  if (reinterpret_cast<std::uintptr_t>(at) % sizeof(T) != 0) {
    simt::fail(where, "__ldg() of %zu bytes at %p", sizeof(T), static_cast<const void*>(at));
  }
  return *at;
}
template <typename T>
void __stcs(T* at, T x, simt::Where where = simt::Where::current()) {
  if (reinterpret_cast<std::uintptr_t>(at) % sizeof(T) != 0) {
    simt::fail(where, "__stcs() of %zu bytes at %p", sizeof(T), static_cast<void*>(at));
  }
  *at = x;
}

using std::max;
using std::min;
inline unsigned min(unsigned a, int b) { return std::min(a, static_cast<unsigned>(b)); }
inline unsigned min(int a, unsigned b) { return std::min(static_cast<unsigned>(a), b); }
inline unsigned max(unsigned a, int b) { return std::max(a, static_cast<unsigned>(b)); }
inline unsigned max(int a, unsigned b) { return std::max(static_cast<unsigned>(a), b); }

// The product of two halves and its sum with a third fit a double: one rounding, as in hardware.
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  auto const fused = [](__half x, __half y, __half z) {
    return __double2half(std::fma(static_cast<double>(__half2float(x)),
                                  static_cast<double>(__half2float(y)),
                                  static_cast<double>(__half2float(z))));
  };
  return {fused(__low2half(a), __low2half(b), __low2half(c)),
          fused(__high2half(a), __high2half(b), __high2half(c))};
}
