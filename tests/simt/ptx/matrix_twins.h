// Twins of kernels/common/ptx.cuh. Fragments are as the manual's figures "MMA .m16n8k16
// fragment layout" have them: lane = 4 * group + member.
#pragma once

#include "runtime/device_calls.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <bit>
#include <cstring>

namespace msda::ptx {

using simt::Where;

inline constexpr std::uint32_t kAllLanes = 0xffffffffu;

// ---- mma

struct Fragments {
  std::uint32_t a[4];
  std::uint32_t b[2];
};

// The words that all lanes gave; element (row, k) of A and (k, column) of B are taken from them.
// kPerWord: elements of a word, 2 halves or a float.
template <int kPerWord, typename ToFloat>
void multiply(float (&sums)[4], std::uint32_t const (&a)[4], std::uint32_t const (&b)[2],
              const char* what, Where where, ToFloat to_float) {
  constexpr std::uint32_t kHalf = 4 * kPerWord;  // k of one half of a fragment
  Fragments mine;
  std::memcpy(mine.a, a, sizeof(a));
  std::memcpy(mine.b, b, sizeof(b));
  simt::Exchange const exchange = simt::meet(kAllLanes, &mine, sizeof(mine), what, false, where);
  if (exchange.present != kAllLanes) simt::fail(where, "%s without all lanes", what);
  Fragments all[32];
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    simt::take(exchange, lane, &all[lane], sizeof(Fragments));
  }
  std::uint32_t const lane = simt::self->lane;
  for (std::uint32_t n = 0; n < 4; ++n) {
    std::uint32_t const row = lane / 4 + 8 * (n / 2), column = 2 * (lane % 4) + n % 2;
    float sum = sums[n];
    for (std::uint32_t k = 0; k < 2 * kHalf; ++k) {
      std::uint32_t const member = k % kHalf / kPerWord, half = k / kHalf;
      Fragments const& of_row = all[4 * (row % 8) + member];
      Fragments const& of_column = all[4 * column + member];
      float const x = to_float(of_row.a[row / 8 + 2 * half], k % kPerWord);
      float const y = to_float(of_column.b[half], k % kPerWord);
      sum += x * y;
    }
    sums[n] = sum;
  }
}

inline void multiply_f16_k16(float (&sums)[4], std::uint32_t const (&a)[4],
                             std::uint32_t const (&b)[2], Where where = Where::current()) {
  multiply<2>(sums, a, b, "mma.f16", where, [](std::uint32_t word, std::uint32_t i) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(word >> (16 * i))));
  });
}
inline void multiply_bf16_k16(float (&sums)[4], std::uint32_t const (&a)[4],
                              std::uint32_t const (&b)[2], Where where = Where::current()) {
  multiply<2>(sums, a, b, "mma.bf16", where, [](std::uint32_t word, std::uint32_t i) {
    return std::bit_cast<float>(word >> (16 * i) << 16);
  });
}
inline void products_f16_k16(float (&products)[4], std::uint32_t const (&a)[4],
                             std::uint32_t const (&b)[2], Where where = Where::current()) {
  float sums[4] = {};
  multiply_f16_k16(sums, a, b, where);
  std::memcpy(products, sums, sizeof(sums));
}
inline void products_bf16_k16(float (&products)[4], std::uint32_t const (&a)[4],
                              std::uint32_t const (&b)[2], Where where = Where::current()) {
  float sums[4] = {};
  multiply_bf16_k16(sums, a, b, where);
  std::memcpy(products, sums, sizeof(sums));
}

}  // namespace msda::ptx
