#include "command/files/element_type.h"

#include <array>
#include <cstring>
#include <limits>

namespace msda::command {
namespace {

// A binary floating-point format. Those of 32 and 64 bits are the machine's own; the others are
// decoded and encoded from these numbers.
struct Format {
  msda_dtype type;
  std::string_view name;
  int bytes;
  bool is_numpys;
  int mantissa_bits;
  int min_exponent;  // of a normal number
  int bias;
  std::uint32_t largest_finite;  // bits; what is above becomes `overflow`
  std::uint32_t overflow;        // infinity, or NaN where there is none
  std::uint32_t nan;
};

constexpr std::array<Format, 5> kFormats = {{
    {MSDA_DTYPE_F64, "f64", 8, true, 52, -1022, 1023, 0, 0, 0},
    {MSDA_DTYPE_F32, "f32", 4, true, 23, -126, 127, 0, 0, 0},
    {MSDA_DTYPE_F16, "f16", 2, true, 10, -14, 15, 0x7BFF, 0x7C00, 0x7E00},
    {MSDA_DTYPE_BF16, "bf16", 2, false, 7, -126, 127, 0x7F7F, 0x7F80, 0x7FC0},
    {MSDA_DTYPE_F8_E4M3, "f8_e4m3", 1, false, 3, -6, 7, 0x7E, 0x7F, 0x7F},
}};

Format const& format_of(msda_dtype type) {
  return *std::ranges::find(kFormats, type, &Format::type);
}

std::uint32_t sign_bit(Format const& format) { return 1u << (8 * format.bytes - 1); }

double decode_narrow(Format const& format, std::uint32_t bits) {
  double const sign = (bits & sign_bit(format)) != 0 ? -1.0 : 1.0;
  std::uint32_t const magnitude = bits & (sign_bit(format) - 1);
  if (magnitude > format.largest_finite) {
    bool const infinite = magnitude == format.overflow && format.overflow != format.nan;
    return sign * (infinite ? std::numeric_limits<double>::infinity()
                            : std::numeric_limits<double>::quiet_NaN());
  }
  std::uint32_t const hidden = 1u << format.mantissa_bits;
  std::uint32_t const mantissa = magnitude & (hidden - 1);
  int const exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  return sign * (exponent == 0 ? std::ldexp(mantissa, format.min_exponent - format.mantissa_bits)
                               : std::ldexp(hidden + mantissa,
                                            exponent - format.bias - format.mantissa_bits));
}

std::uint32_t encode_narrow(Format const& format, double value) {
  std::uint32_t const sign = std::signbit(value) ? sign_bit(format) : 0;
  if (std::isnan(value)) return sign | format.nan;
  double const magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | format.overflow;
  int const exponent =
      magnitude == 0 ? format.min_exponent : std::max(std::ilogb(magnitude), format.min_exponent);
  // In units of the last place rounding is to an integer. The bits of a subnormal number are that
  // integer, and each higher binade continues the count, so a carry needs no case of its own.
  auto const units = static_cast<std::uint64_t>(
      std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
  std::uint64_t const bits =
      units + (static_cast<std::uint64_t>(exponent - format.min_exponent) << format.mantissa_bits);
  return sign |
         (bits <= format.largest_finite ? static_cast<std::uint32_t>(bits) : format.overflow);
}

template <typename T>
void decode_machine(std::span<const std::byte> bytes, std::vector<double>& out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<double>(element);
  }
}

// Every value of a narrow format, by its bits: a table beats arithmetic an element.
std::vector<double> const& decode_table(Format const& format) {
  static std::array<std::vector<double>, kFormats.size()> const kTables = [] {
    std::array<std::vector<double>, kFormats.size()> tables;
    for (std::size_t i = 0; i < tables.size(); ++i) {
      if (kFormats[i].largest_finite == 0) continue;  // the machine's own
      tables[i].resize(std::size_t{1} << (8 * kFormats[i].bytes));
      for (std::uint32_t bits = 0; bits < tables[i].size(); ++bits) {
        tables[i][bits] = decode_narrow(kFormats[i], bits);
      }
    }
    return tables;
  }();
  return kTables[static_cast<std::size_t>(&format - kFormats.data())];
}

}  // namespace

std::string_view type_name(msda_dtype type) {
  auto const found = std::ranges::find(kFormats, type, &Format::type);
  return found == kFormats.end() ? "none" : found->name;
}

std::optional<msda_dtype> type_from_name(std::string_view name) {
  auto const found = std::ranges::find(kFormats, name, &Format::name);
  return found == kFormats.end() ? std::nullopt : std::optional(found->type);
}

std::string type_name_list(bool with_scaled) {
  std::string list, last;
  for (Format const& format : kFormats) {
    if (is_scaled(format.type) && !with_scaled) continue;
    if (!last.empty()) list += (list.empty() ? "" : ", ") + last;
    last = format.name;
  }
  return list + " or " + last;
}

std::size_t type_bytes(msda_dtype type) { return static_cast<std::size_t>(format_of(type).bytes); }

bool is_numpy_type(msda_dtype type) { return format_of(type).is_numpys; }

msda_dtype type_of_width(std::size_t bytes, bool is_numpys) {
  for (Format const& format : kFormats) {
    if (type_bytes(format.type) == bytes && format.is_numpys == is_numpys) return format.type;
  }
  return MSDA_DTYPE_NONE;
}

double unit_roundoff(msda_dtype type) {
  return std::ldexp(1.0, -format_of(type).mantissa_bits - 1);
}

HalfUlp::HalfUlp(msda_dtype type)
    : min_normal_(std::ldexp(1.0, format_of(type).min_exponent)),
      unit_roundoff_(unit_roundoff(type)) {}

double round_to_type(msda_dtype type, double value) {
  if (type == MSDA_DTYPE_F64) return value;
  if (type == MSDA_DTYPE_F32) return static_cast<float>(value);
  Format const& format = format_of(type);
  return decode_narrow(format, encode_narrow(format, value));
}

std::vector<double> decode_elements(msda_dtype type, std::span<const std::byte> bytes) {
  Format const& format = format_of(type);
  std::vector<double> values(bytes.size() / type_bytes(type));
  if (type == MSDA_DTYPE_F64) {
    decode_machine<double>(bytes, values);
  } else if (type == MSDA_DTYPE_F32) {
    decode_machine<float>(bytes, values);
  } else {
    std::vector<double> const& table = decode_table(format);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint16_t bits = 0;  // the files and the machine are little endian
      std::memcpy(&bits, bytes.data() + i * type_bytes(type), type_bytes(type));
      values[i] = table[bits];
    }
  }
  return values;
}

std::int64_t encode_elements(msda_dtype type, std::span<const double> values,
                             std::span<std::byte> bytes) {
  Format const& format = format_of(type);
  std::int64_t overflow_count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::byte* const out = bytes.data() + i * type_bytes(type);
    if (type == MSDA_DTYPE_F64) {
      std::memcpy(out, &values[i], sizeof(double));
    } else if (type == MSDA_DTYPE_F32) {
      auto const element = static_cast<float>(values[i]);
      std::memcpy(out, &element, sizeof(float));
      overflow_count += std::isfinite(values[i]) && !std::isfinite(element);
    } else {
      std::uint32_t const bits = encode_narrow(format, values[i]);
      std::memcpy(out, &bits, type_bytes(type));
      overflow_count +=
          std::isfinite(values[i]) && (bits & (sign_bit(format) - 1)) > format.largest_finite;
    }
  }
  return overflow_count;
}

}  // namespace msda::command
