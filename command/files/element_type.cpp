#include "command/files/element_type.h"

#include "core/float_format.h"

#include <array>
#include <cstring>

namespace msda::command {
namespace {

struct Type {
  msda_dtype dtype;
  std::string_view name;
  bool is_numpys;
  FloatFormat format;
};

constexpr std::array<Type, 5> kTypes = {{
    {MSDA_DTYPE_F64, "f64", true, {52, 11}},
    {MSDA_DTYPE_F32, "f32", true, {23, 8}},
    {MSDA_DTYPE_F16, "f16", true, kF16},
    {MSDA_DTYPE_BF16, "bf16", false, kBf16},
    {MSDA_DTYPE_F8_E4M3, "f8_e4m3", false, kF8E4m3},
}};

std::size_t index_of(msda_dtype type) {
  return static_cast<std::size_t>(std::ranges::find(kTypes, type, &Type::dtype) - kTypes.begin());
}

FloatFormat const& format_of(msda_dtype type) { return kTypes[index_of(type)].format; }

template <typename T>
void decode_machine(std::span<const std::byte> bytes, std::vector<double>& out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    out[i] = static_cast<double>(element);
  }
}

// Every value of a narrow type, by its bits: a table beats arithmetic an element.
std::vector<double> const& decode_table(msda_dtype type) {
  static std::array<std::vector<double>, kTypes.size()> const kTables = [] {
    std::array<std::vector<double>, kTypes.size()> tables;
    for (std::size_t i = 0; i < tables.size(); ++i) {
      if (kTypes[i].format.largest_finite == 0) continue;  // the machine's own
      tables[i].resize(std::size_t{1} << (8 * type_bytes(kTypes[i].dtype)));
      for (std::uint32_t bits = 0; bits < tables[i].size(); ++bits) {
        tables[i][bits] = decode(kTypes[i].format, bits);
      }
    }
    return tables;
  }();
  return kTables[index_of(type)];
}

}  // namespace

std::string_view type_name(msda_dtype type) {
  std::size_t const index = index_of(type);
  return index == kTypes.size() ? "none" : kTypes[index].name;
}

std::optional<msda_dtype> type_from_name(std::string_view name) {
  auto const found = std::ranges::find(kTypes, name, &Type::name);
  return found == kTypes.end() ? std::nullopt : std::optional(found->dtype);
}

std::string type_name_list(bool with_scaled) {
  std::string list, last;
  for (Type const& type : kTypes) {
    if (is_scaled(type.dtype) && !with_scaled) continue;
    if (!last.empty()) list += (list.empty() ? "" : ", ") + last;
    last = type.name;
  }
  return list + " or " + last;
}

bool is_numpy_type(msda_dtype type) { return kTypes[index_of(type)].is_numpys; }

msda_dtype type_of_width(std::size_t bytes, bool is_numpys) {
  for (Type const& type : kTypes) {
    if (type_bytes(type.dtype) == bytes && type.is_numpys == is_numpys) return type.dtype;
  }
  return MSDA_DTYPE_NONE;
}

double unit_roundoff(msda_dtype type) {
  return std::ldexp(1.0, -format_of(type).mantissa_bits - 1);
}

HalfUlp::HalfUlp(msda_dtype type)
    : min_normal_(std::ldexp(1.0, format_of(type).min_exponent())),
      unit_roundoff_(unit_roundoff(type)) {}

double round_to_type(msda_dtype type, double value) {
  if (type == MSDA_DTYPE_F64) return value;
  if (type == MSDA_DTYPE_F32) return static_cast<float>(value);
  FloatFormat const& format = format_of(type);
  return decode(format, encode(format, value));
}

std::vector<double> decode_elements(msda_dtype type, std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() / type_bytes(type));
  if (type == MSDA_DTYPE_F64) {
    decode_machine<double>(bytes, values);
  } else if (type == MSDA_DTYPE_F32) {
    decode_machine<float>(bytes, values);
  } else {
    std::vector<double> const& table = decode_table(type);
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
  FloatFormat const& format = format_of(type);
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
      std::uint32_t const bits = encode(format, values[i]);
      std::memcpy(out, &bits, type_bytes(type));
      overflow_count +=
          std::isfinite(values[i]) && (bits & (format.sign() - 1)) > format.largest_finite;
    }
  }
  return overflow_count;
}

}  // namespace msda::command
