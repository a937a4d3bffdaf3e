// Conversion of every 16- and 8-bit number, and rounding at every place where it could go wrong.

#include "core/dtype.h"

#include "command/problem/random_numbers.h"
#include "support/element_formats.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace msda;

namespace {

constexpr msda_dtype kStored[] = {MSDA_DTYPE_F16, MSDA_DTYPE_BF16};

double load(msda_dtype dtype, std::uint64_t bits) { return load_element(dtype, &bits, 0); }

std::uint64_t store(msda_dtype dtype, double value) {
  std::uint64_t bits = 0;
  store_element(dtype, &bits, 0, value);
  return bits;
}

bool same_number(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

}  // namespace

TEST_CASE("every 16 bit pattern loads as the test's own formats say and comes back") {
  for (msda_dtype const dtype : kStored) {
    int wrong = 0;
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      double const value = load(dtype, bits);
      if (!same_number(value, test::decode(dtype, &bits))) ++wrong;
      bool const back = std::isnan(value) ? std::isnan(load(dtype, store(dtype, value)))
                                          : store(dtype, value) == bits;
      if (!back) ++wrong;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("every 8 bit pattern loads") {
  CHECK(load(MSDA_DTYPE_F8_E4M3, 0x7E) == 448);
  CHECK(load(MSDA_DTYPE_F8_E4M3, 0x01) == 0x1p-9);
  CHECK(std::isnan(load(MSDA_DTYPE_F8_E4M3, 0x7F)));
  CHECK(std::isnan(load(MSDA_DTYPE_F8_E4M3, 0xFF)));
  for (std::uint32_t bits = 0; bits < 256; ++bits) {
    CAPTURE(bits);
    CHECK(same_number(load(MSDA_DTYPE_F8_E4M3, bits), test::decode(MSDA_DTYPE_F8_E4M3, &bits)));
  }
}

TEST_CASE("rounding is to nearest with ties to even") {
  for (msda_dtype const dtype : kStored) {
    int wrong = 0;
    std::uint32_t const infinity = dtype == MSDA_DTYPE_F16 ? 0x7C00 : 0x7F80;
    for (std::uint32_t bits = 0; bits + 1 < infinity; ++bits) {
      double const low = load(dtype, bits), high = load(dtype, bits + 1);
      double const half = low + (high - low) / 2;  // exact in float64
      std::uint32_t const even = bits % 2 == 0 ? bits : bits + 1;
      double const below = std::nextafter(half, low), above = std::nextafter(half, high);
      for (double const sign : {1.0, -1.0}) {
        std::uint64_t const sign_bit = sign < 0 ? 0x8000 : 0;
        if (store(dtype, sign * half) != (sign_bit | even)) ++wrong;
        if (store(dtype, sign * below) != (sign_bit | bits)) ++wrong;
        if (store(dtype, sign * above) != (sign_bit | (bits + 1))) ++wrong;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("overflow and the odd numbers") {
  double const infinity = std::numeric_limits<double>::infinity();
  CHECK(store(MSDA_DTYPE_F16, 65504) == 0x7BFF);
  CHECK(store(MSDA_DTYPE_F16, 65519.99) == 0x7BFF);
  CHECK(store(MSDA_DTYPE_F16, 65520) == 0x7C00);  // halfway to what would be next: infinity
  CHECK(store(MSDA_DTYPE_F16, 1e300) == 0x7C00);
  CHECK(store(MSDA_DTYPE_F16, -infinity) == 0xFC00);
  CHECK(store(MSDA_DTYPE_BF16, 3.4e38) == 0x7F80);
  CHECK(store(MSDA_DTYPE_F16, 0x1p-25) == 0);  // halfway to the smallest subnormal: even
  CHECK(store(MSDA_DTYPE_F16, 0x1.1p-25) == 1);
  CHECK(store(MSDA_DTYPE_F16, -0.0) == 0x8000);
  CHECK(store(MSDA_DTYPE_F32, 1e300) == 0x7F800000);
  for (msda_dtype const dtype : {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16, MSDA_DTYPE_F64}) {
    CHECK(std::isnan(load(dtype, store(dtype, std::nan("")))));
    CHECK(load(dtype, store(dtype, infinity)) == infinity);
  }
}

TEST_CASE("random numbers round as the test's own formats do") {
  command::Rng rng(1);
  for (msda_dtype const dtype : {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16, MSDA_DTYPE_F64}) {
    int wrong = 0;
    for (int i = 0; i < 50'000; ++i) {
      double const value = rng.normal() * std::exp2(rng.uniform(-45, 20));
      std::uint64_t expected = 0;
      test::encode(dtype, &expected, value);
      wrong += store(dtype, value) != expected;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("sizes and names") {
  CHECK(dtype_bytes(MSDA_DTYPE_F64) == 8);
  CHECK(dtype_bytes(MSDA_DTYPE_F8_E4M3) == 1);
  CHECK(dtype_bytes(MSDA_DTYPE_NONE) == 0);
  CHECK(dtype_bytes(77) == 0);
  CHECK(dtype_name(MSDA_DTYPE_BF16) == "BF16");
  CHECK(dtype_name(-1) == "unknown");
}
