#include "core/dtype.h"

#include "core/numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace msda {
namespace {

// A binary floating-point format narrower than float32.
struct Narrow {
  int mantissa_bits;
  int exponent_bits;
  std::uint32_t infinity;        // bits
  std::uint32_t largest_finite;  // bits; what is above and not infinity is NaN
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
};
constexpr Narrow kF16{10, 5, 0x7C00, 0x7BFF};
constexpr Narrow kBf16{7, 8, 0x7F80, 0x7F7F};
constexpr Narrow kF8E4m3{3, 4, 0, 0x7E};  // OCP 8-bit e4m3 has no infinity

double decode(Narrow format, std::uint32_t bits) {
  std::uint32_t const sign = 1u << (format.mantissa_bits + format.exponent_bits);
  std::uint32_t const hidden = 1u << format.mantissa_bits;
  std::uint32_t const mantissa = bits & (hidden - 1);
  int const exponent = static_cast<int>((bits & (sign - 1)) >> format.mantissa_bits);
  double magnitude = std::ldexp(exponent == 0 ? mantissa : hidden + mantissa,
                                std::max(exponent, 1) - format.bias() - format.mantissa_bits);
  if ((bits & (sign - 1)) > format.largest_finite) {
    if ((bits & (sign - 1)) != format.infinity) return std::numeric_limits<double>::quiet_NaN();
    magnitude = std::numeric_limits<double>::infinity();
  }
  return (bits & sign) != 0 ? -magnitude : magnitude;
}

std::uint32_t encode(Narrow format, double value) {
  std::uint32_t const sign =
      std::signbit(value) ? 1u << (format.mantissa_bits + format.exponent_bits) : 0;
  if (std::isnan(value)) return sign | format.infinity | (1u << (format.mantissa_bits - 1));
  double const magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | format.infinity;
  int const min_exponent = 1 - format.bias();
  int const exponent =
      magnitude == 0 ? min_exponent : std::max(std::ilogb(magnitude), min_exponent);
  // In units of the last place the rounding is to an integer. The bits of a subnormal are that
  // integer; those of a normal number continue it, one binade of 2^mantissa_bits integers after the
  // other, so a carry into the next binade, or into infinity, needs no case of its own.
  auto const units = static_cast<std::uint64_t>(
      std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  std::uint64_t const bits =
      units + (static_cast<std::uint64_t>(exponent - min_exponent) << format.mantissa_bits);
  return sign | static_cast<std::uint32_t>(std::min<std::uint64_t>(bits, format.infinity));
}

template <typename T>
T element(const void* array, std::int64_t index) {
  return static_cast<const T*>(array)[index];
}

template <typename T>
void put(void* array, std::int64_t index, T value) {
  static_cast<T*>(array)[index] = value;
}

}  // namespace

double load_element(msda_dtype dtype, const void* array, std::int64_t index) {
  switch (dtype) {
    case MSDA_DTYPE_F32:
      return element<float>(array, index);
    case MSDA_DTYPE_F64:
      return element<double>(array, index);
    case MSDA_DTYPE_F16:
      return decode(kF16, element<std::uint16_t>(array, index));
    case MSDA_DTYPE_BF16:
      return bit_cast<float>(std::uint32_t{element<std::uint16_t>(array, index)} << 16);
    case MSDA_DTYPE_F8_E4M3:
      return decode(kF8E4m3, element<std::uint8_t>(array, index));
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

void store_element(msda_dtype dtype, void* array, std::int64_t index, double value) {
  switch (dtype) {
    case MSDA_DTYPE_F32:
      return put(array, index, static_cast<float>(value));
    case MSDA_DTYPE_F64:
      return put(array, index, value);
    case MSDA_DTYPE_F16:
      return put(array, index, static_cast<std::uint16_t>(encode(kF16, value)));
    case MSDA_DTYPE_BF16:
      return put(array, index, static_cast<std::uint16_t>(encode(kBf16, value)));
    default:
      return;
  }
}

}  // namespace msda
