// What tests/simt/README.md says of bits: arithmetic and conversions that give the same ones on a
// GPU and on the simulated device, since each rounds once, and functions that are only near.
#include "ptx/ptx_run.cuh"
#include "support/element_formats.h"
#include "support/gpu_tests.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace msda::test {
namespace {

constexpr std::uint32_t kThreads = 64;
constexpr std::size_t kFloats = 10, kDoubles = 3, kPairs = 4, kNarrow = 4;

__global__ void compute(const float* x, const float* y, const float* z, float* to) {
  std::uint32_t const i = blockIdx.x * blockDim.x + threadIdx.x;
  float* const end = to + i * kFloats;
  end[0] = __fmul_rn(x[i], y[i]);
  end[1] = __fadd_rn(x[i], y[i]);
  end[2] = __fsub_rn(x[i], y[i]);
  end[3] = fmaf(x[i], y[i], z[i]);
  end[4] = __fdiv_rn(x[i], y[i]);
  end[5] = floorf(x[i]);
  end[6] = __saturatef(x[i]);
  end[7] = __fmul_rd(x[i], y[i]);
  end[8] = __int_as_float(__vimin_s32_relu(__float_as_int(x[i]), __float_as_int(y[i])));
  end[9] = __fadd_rd(x[i], y[i]);
}

__global__ void compute_wide(const double* x, const double* y, double* to) {
  std::uint32_t const i = blockIdx.x * blockDim.x + threadIdx.x;
  double* const end = to + i * kDoubles;
  end[0] = __dmul_rn(x[i], y[i]);
  end[1] = __dadd_rn(x[i], y[i]);
  end[2] = fma(x[i], y[i], -x[i]);
}

__device__ __half2 pair_of(std::uint16_t low, std::uint16_t high) {
  return __halves2half2(__ushort_as_half(low), __ushort_as_half(high));
}

// Each has three pairs: the next thread's numbers are the upper ones.
__global__ void compute_pairs(const std::uint16_t* x, const std::uint16_t* y,
                              const std::uint16_t* z, std::uint16_t* to) {
  std::uint32_t const i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  __half2 const a = pair_of(x[i], x[i + 1]), b = pair_of(y[i], y[i + 1]);
  __half2 const results[kPairs] = {__hmul2_rn(a, b), __hadd2_rn(a, b), __hsub2_rn(a, b),
                                   __hfma2(a, b, pair_of(z[i], z[i + 1]))};
  for (std::uint32_t n = 0; n < kPairs; ++n) {
    to[i * kPairs + n] = __half_as_ushort(__low2half(results[n]));
    to[(i + 1) * kPairs + n] = __half_as_ushort(__high2half(results[n]));
  }
}

__global__ void narrow(const float* x, const double* wide, std::uint16_t* to) {
  std::uint32_t const i = blockIdx.x * blockDim.x + threadIdx.x;
  std::uint16_t* const end = to + i * kNarrow;
  end[0] = __half_as_ushort(__float2half_rn(x[i]));
  end[1] = __bfloat16_as_ushort(__float2bfloat16_rn(x[i]));
  end[2] = __half_as_ushort(__double2half(wide[i]));
  end[3] = __bfloat16_as_ushort(__double2bfloat16(wide[i]));
}

// Every pattern of 16 bits, 64 by each thread.
__global__ void widen(float* halves, float* bfloats) {
  std::uint32_t const first = 64 * (blockIdx.x * blockDim.x + threadIdx.x);
  for (std::uint32_t bits = first; bits < first + 64; ++bits) {
    halves[bits] = __half2float(__ushort_as_half(static_cast<std::uint16_t>(bits)));
    bfloats[bits] = __bfloat162float(__ushort_as_bfloat16(static_cast<std::uint16_t>(bits)));
  }
}

__global__ void take_powers(const float* x, float* to, double* to_wide) {
  std::uint32_t const i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = expf(x[i]);
  to_wide[i] = exp(static_cast<double>(x[i]));
}

float rounded_down(double x) {
  float const limit = std::numeric_limits<float>::infinity();
  auto const nearest = static_cast<float>(x);
  return static_cast<double>(nearest) > x ? std::nextafter(nearest, -limit) : nearest;
}

// 0 where one is below it, else the lesser one: as integers, bits of numbers from 0 on have their
// order.
float lesser_bits(float a, float b) {
  return std::signbit(a) || std::signbit(b) ? 0.0f
         : std::isnan(a)                    ? b
         : std::isnan(b)                    ? a
                                            : std::fmin(a, b);
}

bool is_same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

// The largest float32 that is not above a + b.
float sum_below(float a, float b) {
  double const x = static_cast<double>(a), y = static_cast<double>(b);
  double const sum = x + y, of_y = sum - x;
  double const error = (x - (sum - of_y)) + (y - of_y);
  if (sum == 0.0) return std::signbit(a) || std::signbit(b) ? -0.0f : 0.0f;
  auto const near = static_cast<float>(sum);
  bool const is_above =
      static_cast<double>(near) > sum || (static_cast<double>(near) == sum && error < 0.0);
  return is_above ? std::nextafterf(near, -std::numeric_limits<float>::infinity()) : near;
}

// Numbers of all magnitudes with many bits, and the edges.
std::vector<float> floats() {
  std::vector<float> all;
  for (int i = -149; i < 128; ++i) {
    all.push_back(std::ldexp(1.0f + static_cast<float>((i + 149) * 37 % 277) / 277.0f, i));
    all.push_back(-std::ldexp(1.0f + static_cast<float>((i + 149) * 53 % 277) / 277.0f, i));
  }
  for (int i = 0; i < 440; ++i) all.push_back(static_cast<float>(i - 220) / 7.0f);
  float const infinity = std::numeric_limits<float>::infinity();
  for (float const x :
       {0.0f, -0.0f, infinity, -infinity, 1.0f, -1.0f, 65504.0f, 65520.0f, 0x1p-25f, 0x1.8p-25f,
        0x1p-24f, std::numeric_limits<float>::max(), std::numeric_limits<float>::quiet_NaN()})
    all.push_back(x);
  while (all.size() % kThreads != 0) all.push_back(0.1f);
  return all;
}

// The same numbers in another order; half of them near the first ones, so that sums cancel.
template <typename T>
std::vector<T> partners(std::vector<T> const& all, std::size_t step) {
  std::vector<T> result(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    result[i] = all[(i % 2 == 0 ? i + 2 : i * step + 7) % all.size()];
  }
  return result;
}

std::vector<std::uint16_t> halves() {
  std::vector<std::uint16_t> all;
  for (std::uint32_t i = 0; i < 1024; ++i) {
    all.push_back(static_cast<std::uint16_t>(i * 40503u >> 3 ^ (i % 2) << 15));
  }
  return all;
}

double half_value(std::uint16_t bits) { return decode(MSDA_DTYPE_F16, &bits); }

std::int64_t blocks_of(std::size_t size) { return static_cast<std::int64_t>(size / kThreads); }

}  // namespace

TEST_CASE("ptx: float32 and float64 are rounded once" * needs_gpu()) {
  std::vector<float> const x = floats(), y = partners(x, 31), z = partners(y, 17);
  DeviceVector<float> const xs(x), ys(y), zs(z), to(kFloats * x.size());
  run(compute, {.blocks = blocks_of(x.size()), .threads = kThreads}, xs.data(), ys.data(),
      zs.data(), to.data());
  std::vector<double> const wide_x(x.begin(), x.end());
  std::vector<double> wide_y(y.begin(), y.end());
  for (double& number : wide_y) number /= 3;  // bits below those of float32
  DeviceVector<double> const wide_xs(wide_x), wide_ys(wide_y), wide_to(kDoubles * x.size());
  run(compute_wide, {.blocks = blocks_of(x.size()), .threads = kThreads}, wide_xs.data(),
      wide_ys.data(), wide_to.data());
  std::vector<float> const values = to.values();
  std::vector<double> const wide_values = wide_to.values();
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const a = static_cast<double>(x[i]), b = static_cast<double>(y[i]);
    double const inside = std::isnan(a) ? 0 : std::fmin(std::fmax(a, 0), 1);
    float const expected[kFloats] = {static_cast<float>(a * b),        static_cast<float>(a + b),
                                     static_cast<float>(a - b),        std::fma(x[i], y[i], z[i]),
                                     static_cast<float>(a / b),        std::floor(x[i]),
                                     static_cast<float>(inside + 0.0), rounded_down(a * b),
                                     lesser_bits(x[i], y[i]),          sum_below(x[i], y[i])};
    for (std::size_t n = 0; n < kFloats; ++n) {
      CAPTURE(x[i]);
      CAPTURE(y[i]);
      CAPTURE(n);
      CHECK(
          is_same(static_cast<double>(values[kFloats * i + n]), static_cast<double>(expected[n])));
    }
    CHECK(is_same(wide_values[kDoubles * i], a * wide_y[i]));
    CHECK(is_same(wide_values[kDoubles * i + 1], a + wide_y[i]));
    CHECK(is_same(wide_values[kDoubles * i + 2], std::fma(a, wide_y[i], -a)));
  }
}

TEST_CASE("ptx: pairs of float16 are rounded once" * needs_gpu()) {
  std::vector<std::uint16_t> const x = halves(), y = partners(x, 31), z = partners(y, 17);
  DeviceVector<std::uint16_t> const xs(x), ys(y), zs(z), to(kPairs * x.size());
  run(compute_pairs, {.blocks = blocks_of(x.size() / 2), .threads = kThreads}, xs.data(), ys.data(),
      zs.data(), to.data());
  std::vector<std::uint16_t> const values = to.values();
  for (std::size_t i = 0; i < x.size(); ++i) {
    double const a = half_value(x[i]), b = half_value(y[i]), c = half_value(z[i]);
    double const expected[kPairs] = {a * b, a + b, a - b, std::fma(a, b, c)};
    for (std::size_t n = 0; n < kPairs; ++n) {
      CAPTURE(a);
      CAPTURE(b);
      CAPTURE(n);
      CHECK(is_same(half_value(values[kPairs * i + n]), round_to(MSDA_DTYPE_F16, expected[n])));
    }
  }
}

TEST_CASE("ptx: narrow types are converted exactly, and to by one rounding" * needs_gpu()) {
  std::vector<float> const x = floats();
  std::vector<double> wide(x.begin(), x.end());
  for (double& number : wide) number *= 1 + 0x1p-40;  // just beyond halves of a unit
  DeviceVector<float> const xs(x), f16(1 << 16), bf16(1 << 16);
  DeviceVector<double> const wides(wide);
  DeviceVector<std::uint16_t> const to(kNarrow * x.size());
  run(narrow, {.blocks = blocks_of(x.size()), .threads = kThreads}, xs.data(), wides.data(),
      to.data());
  std::vector<std::uint16_t> const values = to.values();
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t n = 0; n < kNarrow; ++n) {
      CAPTURE(x[i]);
      CAPTURE(n);
      msda_dtype const dtype = n % 2 == 0 ? MSDA_DTYPE_F16 : MSDA_DTYPE_BF16;
      double const from = n < 2 ? static_cast<double>(x[i]) : wide[i];
      CHECK(is_same(decode(dtype, &values[kNarrow * i + n]), round_to(dtype, from)));
    }
  }
  run(widen, {.blocks = 16, .threads = kThreads}, f16.data(), bf16.data());
  std::vector<float> const f16s = f16.values(), bf16s = bf16.values();
  int same = 0;
  for (std::uint32_t n = 0; n < 1 << 16; ++n) {
    auto const bits = static_cast<std::uint16_t>(n);
    same += is_same(static_cast<double>(f16s[n]), decode(MSDA_DTYPE_F16, &bits)) &&
            is_same(static_cast<double>(bf16s[n]), decode(MSDA_DTYPE_BF16, &bits));
  }
  CHECK(same == 1 << 16);
}

// CUDA C++ Programming Guide 13.0, mathematical functions: one unit each.
TEST_CASE("ptx: powers of e are near" * needs_gpu()) {
  std::vector<float> x;
  for (int i = 0; i < 1024; ++i) x.push_back(static_cast<float>(i - 512) / 7.0f);
  DeviceVector<float> const xs(x), to(x.size());
  DeviceVector<double> const to_wide(x.size());
  run(take_powers, {.blocks = blocks_of(x.size()), .threads = kThreads}, xs.data(), to.data(),
      to_wide.data());
  std::vector<float> const values = to.values();
  std::vector<double> const wide = to_wide.values();
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(x[i]);
    long double const expected = std::exp(static_cast<long double>(x[i]));
    CHECK(std::fabs(static_cast<long double>(values[i]) - expected) <= expected * 0x1p-22L);
    CHECK(std::fabs(static_cast<long double>(wide[i]) - expected) <= expected * 0x1p-51L);
  }
}

}  // namespace msda::test
