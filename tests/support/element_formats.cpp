#include "support/element_formats.h"

#include "core/numbers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace msda::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// One of the types narrower than float32: sign, exponent, mantissa.
struct Narrow {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;  // else the largest exponent holds numbers too, and all ones is NaN
};

Narrow narrow(msda_dtype dtype) {
  switch (dtype) {
    case MSDA_DTYPE_F16:
      return {5, 10, true};
    case MSDA_DTYPE_BF16:
      return {8, 7, true};
    default:
      return {4, 3, false};
  }
}

// The numbers of a narrow type from 0 upwards; the index is the bit pattern. The first pattern
// behind the last number is infinity, or NaN where there is none.
std::vector<double> list_numbers(Narrow format) {
  int const bias = (1 << (format.exponent_bits - 1)) - 1;
  int const binade = 1 << format.mantissa_bits;
  int const exponents = (1 << format.exponent_bits) - (format.has_infinity ? 1 : 0);
  std::vector<double> numbers;
  for (int exponent = 0; exponent < exponents; ++exponent) {
    for (int mantissa = 0; mantissa < binade; ++mantissa) {
      double const fraction = static_cast<double>(mantissa) / binade;
      numbers.push_back(exponent == 0 ? fraction * std::exp2(1 - bias)
                                      : (1 + fraction) * std::exp2(exponent - bias));
    }
  }
  if (!format.has_infinity) numbers.pop_back();
  return numbers;
}

std::vector<double> const& numbers(msda_dtype dtype) {
  static std::array<std::vector<double>, 3> const lists = {
      list_numbers(narrow(MSDA_DTYPE_F16)), list_numbers(narrow(MSDA_DTYPE_BF16)),
      list_numbers(narrow(MSDA_DTYPE_F8_E4M3))};
  return lists[dtype == MSDA_DTYPE_F16 ? 0 : dtype == MSDA_DTYPE_BF16 ? 1 : 2];
}

// The first number of the list that is not below `magnitude`, searched in its binade alone.
std::size_t first_not_below(msda_dtype dtype, double magnitude) {
  std::vector<double> const& list = numbers(dtype);
  Narrow const format = narrow(dtype);
  int const bias = (1 << (format.exponent_bits - 1)) - 1, exponents = 1 << format.exponent_bits;
  int const exponent = std::clamp(std::ilogb(magnitude), -bias, exponents - bias) + bias;
  auto const at = [&](int binade) {
    std::size_t const index = static_cast<std::size_t>(binade) << format.mantissa_bits;
    return list.begin() + static_cast<std::ptrdiff_t>(std::min(index, list.size()));
  };
  return static_cast<std::size_t>(std::lower_bound(at(exponent), at(exponent + 1), magnitude) -
                                  list.begin());
}

std::uint64_t sign_bit(msda_dtype dtype) {
  return std::uint64_t{1} << (8 * element_bytes(dtype) - 1);
}

double decode_narrow(msda_dtype dtype, std::uint64_t bits) {
  double const sign = (bits & sign_bit(dtype)) != 0 ? -1.0 : 1.0;
  std::uint64_t const magnitude = bits & ~sign_bit(dtype);
  std::vector<double> const& list = numbers(dtype);
  if (magnitude < list.size()) return sign * list[magnitude];
  return narrow(dtype).has_infinity && magnitude == list.size() ? sign * kInfinity : kNan;
}

std::uint64_t encode_narrow(msda_dtype dtype, double value) {
  std::uint64_t const sign = std::signbit(value) ? sign_bit(dtype) : 0;
  std::vector<double> const& list = numbers(dtype);
  // Behind the last number comes infinity where the type has it, a quiet NaN from there half a
  // binade on.
  std::uint64_t const quiet = list.size() + (std::uint64_t{1} << (narrow(dtype).mantissa_bits - 1));
  if (std::isnan(value)) return sign | (narrow(dtype).has_infinity ? quiet : list.size());
  double const magnitude = std::fabs(value);
  std::uint64_t const above = first_not_below(dtype, magnitude);
  if (above == 0) return sign;
  double const low = list[above - 1];
  // The step of the last binade goes on behind the largest number.
  double const high = above < list.size() ? list[above] : low + (low - list[above - 2]);
  bool const up =
      magnitude - low > high - magnitude || (magnitude - low == high - magnitude && above % 2 == 0);
  return sign | (up ? above : above - 1);
}

// The size as a constant: copies of one element are most of what the tests do.
template <typename Copy>
void with_size(msda_dtype dtype, Copy copy) {
  switch (element_bytes(dtype)) {
    case 1:
      return copy(std::integral_constant<std::size_t, 1>());
    case 2:
      return copy(std::integral_constant<std::size_t, 2>());
    case 4:
      return copy(std::integral_constant<std::size_t, 4>());
    default:
      return copy(std::integral_constant<std::size_t, 8>());
  }
}

}  // namespace

std::size_t element_bytes(msda_dtype dtype) {
  switch (dtype) {
    case MSDA_DTYPE_F64:
      return 8;
    case MSDA_DTYPE_F32:
      return 4;
    case MSDA_DTYPE_F8_E4M3:
      return 1;
    default:
      return 2;
  }
}

std::uint64_t raw_bits(msda_dtype dtype, const void* element) {
  std::uint64_t bits = 0;  // the hosts of this library are little-endian
  with_size(dtype, [&](auto size) { std::memcpy(&bits, element, size); });
  return bits;
}

void store_bits(msda_dtype dtype, void* element, std::uint64_t bits) {
  with_size(dtype, [&](auto size) { std::memcpy(element, &bits, size); });
}

double decode(msda_dtype dtype, const void* element) {
  std::uint64_t const bits = raw_bits(dtype, element);
  if (dtype == MSDA_DTYPE_F64) return bit_cast<double>(bits);
  if (dtype == MSDA_DTYPE_F32) return bit_cast<float>(static_cast<std::uint32_t>(bits));
  return decode_narrow(dtype, bits);
}

void encode(msda_dtype dtype, void* element, double value) {
  if (dtype == MSDA_DTYPE_F64) return store_bits(dtype, element, bit_cast<std::uint64_t>(value));
  if (dtype == MSDA_DTYPE_F32) {
    return store_bits(dtype, element, bit_cast<std::uint32_t>(static_cast<float>(value)));
  }
  store_bits(dtype, element, encode_narrow(dtype, value));
}

double round_to(msda_dtype dtype, double value) {
  std::uint64_t element = 0;
  encode(dtype, &element, value);
  return decode(dtype, &element);
}

double half_ulp(msda_dtype dtype, double value) {
  double const magnitude = std::fabs(value);
  if (dtype == MSDA_DTYPE_F64) return (std::nextafter(magnitude, kInfinity) - magnitude) / 2;
  if (dtype == MSDA_DTYPE_F32) {
    auto const below = static_cast<float>(magnitude);
    if (std::isinf(below)) return kInfinity;
    return (static_cast<double>(std::nextafter(below, std::numeric_limits<float>::infinity())) -
            static_cast<double>(below)) /
           2;
  }
  std::vector<double> const& list = numbers(dtype);
  auto above = std::upper_bound(list.begin(), list.end(), magnitude);
  if (above == list.end()) --above;
  return (*above - *(above - 1)) / 2;
}

std::uint64_t poison_bits(msda_dtype dtype) {
  switch (dtype) {
    case MSDA_DTYPE_F64:
      return 0x7FF5'5EED'BAD0'C0DEu;
    case MSDA_DTYPE_F32:
      return 0x7FBF'8234u;
    case MSDA_DTYPE_F16:
      return 0x7D5Au;
    case MSDA_DTYPE_BF16:
      return 0x7FB3u;
    default:
      return 0xFFu;
  }
}

}  // namespace msda::test
