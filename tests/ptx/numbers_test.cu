// The wrappers of kernels/common/ptx.cuh that compute: exact where they are, else within the
// manual's errors.
#include "kernels/common/ptx.cuh"
#include "ptx/ptx_run.cuh"
#include "support/gpu_tests.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace msda::test {
namespace {

__global__ void convert(const std::uint32_t* from, std::uint32_t* to) {
  std::uint32_t lower, upper;
  ptx::convert_f8(from[threadIdx.x], lower, upper);
  to[2 * threadIdx.x] = lower;
  to[2 * threadIdx.x + 1] = upper;
}

__global__ void approximate(const float* from, float* powers, float* inverses) {
  std::uint32_t const i = blockIdx.x * blockDim.x + threadIdx.x;
  float const x = from[i];
  powers[i] = ptx::exp2_approximate(x);
  inverses[i] = ptx::reciprocal_approximate(x);
}

__global__ void keep(const char* from, std::uint32_t* to) {
  std::uint32_t n = threadIdx.x;
  const char* at = from + n;
  ptx::pin(n);
  ptx::pin(at);
  to[threadIdx.x] = n + static_cast<std::uint32_t>(at - from);
}

// F8_E4M3 by its definition: 4 bits of exponent with bias 7, 3 of mantissa; S.1111.111 is NaN.
double f8_value(std::uint32_t bits) {
  int const exponent = static_cast<int>(bits >> 3 & 15), mantissa = static_cast<int>(bits & 7);
  double const magnitude =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  if ((bits & 127) == 127) return std::numeric_limits<double>::quiet_NaN();
  return (bits & 128) != 0 ? -magnitude : magnitude;
}

double f16_value(std::uint32_t bits) {
  int const exponent = static_cast<int>(bits >> 10 & 31), mantissa = static_cast<int>(bits & 1023);
  double const magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  if (exponent == 31) return std::numeric_limits<double>::quiet_NaN();
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

bool is_same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

// Multiples of 1/7 and powers of two, of both signs; zeros, infinities, subnormals and NaN.
std::vector<float> arguments() {
  std::vector<float> all;
  for (int i = 0; i < 440; ++i) all.push_back(static_cast<float>(i - 220) / 7.0f);
  for (int i = -149; i < 128; ++i) {
    all.push_back(std::ldexp(1.0f, i));
    all.push_back(-std::ldexp(1.1f, i));
  }
  float const infinity = std::numeric_limits<float>::infinity();
  for (float const x : {0.0f, -0.0f, infinity, -infinity, -126.0f, -127.0f, 128.0f})
    all.push_back(x);
  all.push_back(std::numeric_limits<float>::quiet_NaN());
  while (all.size() % 64 != 0) all.push_back(1.0f);
  return all;
}

// PTX ISA 9.0, ex2 and rcp: relative errors of 2^-22 and one unit; subnormals are 0.
bool is_near(float is, double should_be, double error) {
  if (std::isnan(should_be)) return std::isnan(is);
  if (std::fabs(should_be) > static_cast<double>(std::numeric_limits<float>::max())) {
    return std::isinf(is) && std::signbit(is) == std::signbit(should_be);
  }
  if (std::fabs(should_be) < 0x1p-126) return is == 0.0f;
  return std::fabs(static_cast<double>(is) - should_be) <= error * std::fabs(should_be);
}

}  // namespace

TEST_CASE("ptx: every F8_E4M3 is converted exactly" * needs_gpu()) {
  std::vector<std::uint32_t> words(64);
  for (std::uint32_t i = 0; i < 64; ++i) words[i] = 0x03020100u + 0x04040404u * i;
  DeviceVector<std::uint32_t> const from(words), to(128);
  run(convert, {.blocks = 1, .threads = 64}, from.data(), to.data());
  std::vector<std::uint32_t> const pairs = to.values();
  for (std::uint32_t bits = 0; bits < 256; ++bits) {
    CAPTURE(bits);
    double const is = f16_value(pairs[bits / 2] >> (16 * (bits % 2)) & 0xffffu);
    CHECK(is_same(is, f8_value(bits)));
  }
}

TEST_CASE("ptx: ex2 and rcp are within the manual's errors" * needs_gpu()) {
  std::vector<float> const x = arguments();
  DeviceVector<float> const from(x), powers(x.size()), inverses(x.size());
  run(approximate, {.blocks = static_cast<std::int64_t>(x.size() / 64), .threads = 64}, from.data(),
      powers.data(), inverses.data());
  std::vector<float> const power = powers.values(), inverse = inverses.values();
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    float const flushed = std::fabs(x[i]) < 0x1p-126f ? std::copysign(0.0f, x[i]) : x[i];
    CHECK(is_near(power[i], std::exp2(static_cast<double>(flushed)), 0x1p-22));
    CHECK(is_near(inverse[i], 1.0 / static_cast<double>(flushed), 0x1p-23));
  }
}

TEST_CASE("ptx: pinned values stay what they are" * needs_gpu()) {
  DeviceVector<char> const from(32);
  DeviceVector<std::uint32_t> const to(32);
  run(keep, {.blocks = 1, .threads = 32}, from.data(), to.data());
  std::vector<std::uint32_t> const values = to.values();
  for (std::uint32_t i = 0; i < 32; ++i) CHECK(values[i] == 2 * i);
}

}  // namespace msda::test
