// Floating-point formats, and numbers of those narrower than float32 from and to float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace msda {

struct FloatFormat {
  int mantissa_bits;
  int exponent_bits;
  // Bits of narrow formats:
  std::uint32_t largest_finite = 0;
  std::uint32_t overflow = 0;  // infinity, or NaN where there is none
  std::uint32_t nan = 0;

  std::uint32_t sign() const { return 1u << (mantissa_bits + exponent_bits); }
  int min_exponent() const { return 2 - (1 << (exponent_bits - 1)); }  // of a normal number
};
inline constexpr FloatFormat kF16{10, 5, 0x7BFF, 0x7C00, 0x7E00};
inline constexpr FloatFormat kBf16{7, 8, 0x7F7F, 0x7F80, 0x7FC0};
inline constexpr FloatFormat kF8E4m3{3, 4, 0x7E, 0x7F, 0x7F};  // OCP 8-bit e4m3

inline double decode(FloatFormat const& format, std::uint32_t bits) {
  std::uint32_t const hidden = 1u << format.mantissa_bits;
  std::uint32_t const magnitude_bits = bits & (format.sign() - 1);
  std::uint32_t const mantissa = magnitude_bits & (hidden - 1);
  int const exponent = static_cast<int>(magnitude_bits >> format.mantissa_bits);
  double magnitude =
      std::ldexp(exponent == 0 ? mantissa : hidden + mantissa,
                 std::max(exponent, 1) - 1 + format.min_exponent() - format.mantissa_bits);
  if (magnitude_bits > format.largest_finite) {
    bool const is_infinity = magnitude_bits == format.overflow && format.overflow != format.nan;
    if (!is_infinity) return std::numeric_limits<double>::quiet_NaN();
    magnitude = std::numeric_limits<double>::infinity();
  }
  return (bits & format.sign()) != 0 ? -magnitude : magnitude;
}

// Rounds once, to nearest even.
inline std::uint32_t encode(FloatFormat const& format, double value) {
  std::uint32_t const sign = std::signbit(value) ? format.sign() : 0;
  if (std::isnan(value)) return sign | format.nan;
  double const magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | format.overflow;
  int const least = format.min_exponent();
  int const exponent = magnitude == 0 ? least : std::max(std::ilogb(magnitude), least);
  // In units of the last place the rounding is to an integer. The bits of a subnormal are that
  // integer; those of a normal number continue it, one binade of 2^mantissa_bits integers after the
  // other, so a carry into the next binade, or beyond the last, needs no case of its own.
  auto const units = static_cast<std::uint64_t>(
      std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  std::uint64_t const bits =
      units + (static_cast<std::uint64_t>(exponent - least) << format.mantissa_bits);
  return sign |
         (bits <= format.largest_finite ? static_cast<std::uint32_t>(bits) : format.overflow);
}

}  // namespace msda
