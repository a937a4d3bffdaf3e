// The wrappers of matrix instructions in kernels/common/ptx.cuh, against products in float64.
#include "kernels/common/ptx.cuh"
#include "ptx/ptx_run.cuh"
#include "support/gpu_tests.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

namespace msda::test {
namespace {

enum class Type { f16, bf16 };

// A fragment's elements in words: of 16 x K (A) or 8 columns of K (B), both K-major.
template <Type kType>
__device__ std::uint32_t word_of(const float* matrix, std::uint32_t row, std::uint32_t k,
                                 std::uint32_t columns) {
  const float* const at = matrix + row * columns + k;
  if constexpr (kType == Type::f16) {
    return __half_as_ushort(__float2half_rn(at[0])) |
           static_cast<std::uint32_t>(__half_as_ushort(__float2half_rn(at[1]))) << 16;
  } else {
    return __float_as_uint(at[0]) >> 16 | (__float_as_uint(at[1]) & 0xffff0000u);
  }
}

// Adds the products to the sums, or (kFresh) replaces these.
template <Type kType, bool kFresh>
__global__ void multiply(const float* a, const float* b, float* sums) {
  constexpr std::uint32_t kHalf = 8, kOfLane = 2, kK = 2 * kHalf;
  std::uint32_t const group = threadIdx.x / 4, member = threadIdx.x % 4;
  std::uint32_t a_words[4], b_words[2];
  for (std::uint32_t i = 0; i < 4; ++i) {
    a_words[i] = word_of<kType>(a, group + 8 * (i % 2), kOfLane * member + kHalf * (i / 2), kK);
  }
  for (std::uint32_t i = 0; i < 2; ++i) {
    b_words[i] = word_of<kType>(b, group, kOfLane * member + kHalf * i, kK);
  }
  float own[4];
  for (std::uint32_t i = 0; i < 4; ++i)
    own[i] = sums[(group + 8 * (i / 2)) * 8 + 2 * member + i % 2];
  if constexpr (kFresh && kType == Type::f16) {
    ptx::products_f16_k16(own, a_words, b_words);
  } else if constexpr (kFresh) {
    ptx::products_bf16_k16(own, a_words, b_words);
  } else if constexpr (kType == Type::f16) {
    ptx::multiply_f16_k16(own, a_words, b_words);
  } else {
    ptx::multiply_bf16_k16(own, a_words, b_words);
  }
  for (std::uint32_t i = 0; i < 4; ++i)
    sums[(group + 8 * (i / 2)) * 8 + 2 * member + i % 2] = own[i];
}

// Sums of small integers are exact in every order. Others differ by at most `error` of the sum of
// magnitudes.
struct Elements {
  bool are_integers;
  double error;
};

template <Type kType, bool kFresh = false>
void check_multiply(Elements const& elements) {
  constexpr std::size_t kK = 16;
  std::vector<float> a(16 * kK), b(8 * kK), sums(16 * 8);
  // 8 bits, as many as bfloat16 holds, and powers of two, so that bits of a sum are lost.
  auto const element = [&](std::size_t i, std::size_t most) {
    float const integer = static_cast<float>(i % most) - static_cast<float>(most / 2);
    return elements.are_integers ? integer : integer * std::exp2(static_cast<float>(i % 9) - 4);
  };
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = element(7 * i + 3, 23);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = element(5 * i + 1, 19);
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[i] = (static_cast<float>(i) - 50) / (elements.are_integers ? 1.0f : 3.0f);
  DeviceVector<float> const a_there(a), b_there(b), sums_there(sums);
  run(multiply<kType, kFresh>, {.blocks = 1, .threads = 32}, a_there.data(), b_there.data(),
      sums_there.data());
  std::vector<float> const values = sums_there.values();
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t column = 0; column < 8; ++column) {
      double sum = kFresh ? 0.0 : static_cast<double>(sums[8 * row + column]);
      double magnitude = std::fabs(sum);
      for (std::size_t k = 0; k < kK; ++k) {
        double const product =
            static_cast<double>(a[kK * row + k]) * static_cast<double>(b[kK * column + k]);
        sum += product;
        magnitude += std::fabs(product);
      }
      double const is = static_cast<double>(values[8 * row + column]);
      CHECK(std::fabs(is - sum) <= elements.error * magnitude);
    }
  }
}

}  // namespace

TEST_CASE("ptx: mma multiplies matrices" * needs_gpu()) {
  for (Elements const& elements : {Elements{true, 0}, Elements{false, 0x1p-20}}) {
    CAPTURE(elements.are_integers);
    check_multiply<Type::f16>(elements);
    check_multiply<Type::bf16>(elements);
    check_multiply<Type::f16, true>(elements);
    check_multiply<Type::bf16, true>(elements);
  }
}

}  // namespace msda::test
