#include "command/files/stored_array.h"

#include "command/files/element_type.h"
#include "command/files/input_error.h"
#include "core/join.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <utility>

namespace msda::command {
namespace {

// The type of the elements, or NONE where the file does not say it and nobody else does.
msda_dtype stored_type(StoredArray const& array, TypeWish const& wish) {
  if (array.kind == 'f') return type_of_width(array.item_bytes, true);
  bool const is_stated =
      wish.stored != MSDA_DTYPE_NONE && type_bytes(wish.stored) == array.item_bytes;
  // ml_dtypes saves its types as raw bytes.
  if (array.kind == 'V' && !is_stated) {
    msda_dtype const type = type_of_width(array.item_bytes, false);
    return is_scaled(type) && !wish.takes_scaled ? MSDA_DTYPE_NONE : type;
  }
  bool const is_bits = array.kind == 'V' || array.kind == 'u';
  return is_bits && array.item_bytes <= 2 && is_stated ? wish.stored : MSDA_DTYPE_NONE;
}

// ---- the header of .npy

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kHeaderAlignment = 64;
constexpr std::size_t kLongestDescr = 32;  // that a message repeats

struct Header {
  std::string dictionary;
  std::size_t data_start = 0;
};

Header find_header(std::span<const std::byte> file, std::string_view name) {
  auto const* const text = reinterpret_cast<const char*>(file.data());
  if (file.size() < 10 || std::string_view(text, kMagic.size()) != kMagic) {
    bad_input("{} is not a .npy array", name);
  }
  int const version = static_cast<int>(file[6]);
  if (version < 1 || version > 3) {
    bad_input("{} is a .npy array of version {}: versions 1 to 3 can be read", name, version);
  }
  std::size_t const length_bytes = version == 1 ? 2 : 4;
  std::uint32_t length = 0;  // little endian, like the machine
  std::size_t const start = 8 + length_bytes;
  if (file.size() < start) bad_input("{} is cut short in its .npy header", name);
  std::memcpy(&length, file.data() + 8, length_bytes);
  if (length > file.size() - start) bad_input("{} is cut short in its .npy header", name);
  return {std::string(text + start, length), start + length};
}

// The dictionary as JSON, from which it differs in quotes, words, tuples and the comma that may end
// these; u'text' and 1L are Python 2's.
nlohmann::json as_json(std::string_view dictionary) {
  std::string json;
  char quote = 0;  // of the text that the character is in
  for (char const c : dictionary) {
    if (quote != 0 ? c == quote : c == '\'' || c == '"') {
      quote = quote == 0 ? c : 0;
      json += '"';
    } else if (quote != 0) {
      json += c;
    } else if (c == ')' || c == '}') {
      std::size_t const last = json.find_last_not_of(" \t\r\n");
      if (last != std::string::npos && json[last] == ',') json[last] = ' ';
      json += c == ')' ? ']' : c;
    } else if (c != 'L' && (c != 'u' || json.ends_with("tr"))) {
      json += c == '(' ? '[' : c == 'T' ? 't' : c == 'F' ? 'f' : c;
    }
  }
  return nlohmann::json::parse(json, nullptr, false);
}

struct Description {
  std::string descr;
  bool fortran_order;
  Shape shape;
};

Description parse_dictionary(std::string_view text, std::string_view name) {
  nlohmann::json const json = as_json(text);
  auto const damaged = [name] { bad_input("{} has a damaged .npy header", name); };
  if (!json.is_object() || json.size() != 3 || !json.contains("descr") ||
      !json.contains("fortran_order") || !json.contains("shape")) {
    damaged();
  }
  auto const &descr = json["descr"], &fortran_order = json["fortran_order"], &shape = json["shape"];
  if (descr.is_array()) {
    bad_input("{} is a structured array: must be a plain floating-point or integer array", name);
  }
  if (!descr.is_string() || !fortran_order.is_boolean() || !shape.is_array()) damaged();
  Description description{descr, fortran_order, {}};
  for (nlohmann::json const& dimension : shape) {
    if (dimension.is_number() && dimension.get<double>() >= 0x1p63) {
      bad_input("{} has a dimension of 2^63 or more", name);
    }
    if (!dimension.is_number_integer()) damaged();
    description.shape.push_back(dimension);
    if (dimension < 0) {
      bad_input("{} has a dimension of {}: none can be negative", name, description.shape.back());
    }
  }
  return description;
}

// "<f4": byte order, kind, bytes of an element.
void parse_descr(std::string_view descr, StoredArray& array, std::string_view name) {
  constexpr std::string_view kOrders = "<>|=";
  constexpr std::string_view kKinds = "fiubV";
  unsigned bytes = 0;
  bool const is_plain = descr.size() >= 3 && kOrders.find(descr[0]) != std::string_view::npos &&
                        kKinds.find(descr[1]) != std::string_view::npos;
  const char* const end = descr.data() + descr.size();
  if (!is_plain || std::from_chars(descr.data() + 2, end, bytes).ptr != end || bytes == 0) {
    bad_input("{} has dtype '{}': must be a plain floating-point or integer type", name,
              descr.substr(0, kLongestDescr));
  }
  array.kind = descr[1];
  array.item_bytes = bytes;
  array.is_big_endian = descr[0] == '>';
}

// From the last byte first to the first byte first. Raw bytes have no order of their own.
void swap_bytes(StoredArray& array) {
  if (array.item_bytes < 2 || array.kind == 'V') return;
  auto const step = static_cast<std::ptrdiff_t>(array.item_bytes);
  for (auto item = array.bytes.begin(); item != array.bytes.end(); item += step) {
    std::reverse(item, item + step);
  }
}

// From the first index running fastest to the last one.
void to_c_order(StoredArray& array) {
  Shape const& shape = array.shape;
  if (shape.size() < 2 || array.bytes.empty()) return;
  Shape strides(shape.size(), 1);  // of what is there, in elements
  for (std::size_t i = 1; i < shape.size(); ++i) strides[i] = strides[i - 1] * shape[i - 1];
  Bytes ordered(array.bytes.size());
  Shape at(shape.size(), 0);
  std::int64_t from = 0;
  for (std::size_t to = 0; to < ordered.size(); to += array.item_bytes) {
    std::memcpy(&ordered[to], &array.bytes[static_cast<std::size_t>(from) * array.item_bytes],
                array.item_bytes);
    for (std::size_t i = shape.size(); i-- > 0;) {
      from += strides[i];
      if (++at[i] < shape[i]) break;
      from -= strides[i] * shape[i];
      at[i] = 0;
    }
  }
  array.bytes = std::move(ordered);
}

}  // namespace

std::string StoredArray::descr() const {
  return fmt::format("{}{}{}", item_bytes == 1 ? '|' : is_big_endian ? '>' : '<', kind, item_bytes);
}

std::vector<std::int64_t> to_integers(StoredArray const& array, std::string const& label) {
  bool const is_signed = array.kind == 'i';
  std::size_t const size = array.item_bytes;
  if ((!is_signed && array.kind != 'u') || size > sizeof(std::int64_t) ||
      !std::has_single_bit(size)) {
    bad_input("{} has dtype '{}': must be an integer type", label, array.descr());
  }
  std::vector<std::int64_t> values(array.bytes.size() / size);
  std::size_t const missing_bits = 8 * (sizeof(std::int64_t) - size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint64_t bits = 0;  // the array and the machine are little endian
    std::memcpy(&bits, array.bytes.data() + i * size, size);
    auto const value = static_cast<std::int64_t>(bits << missing_bits);
    values[i] = is_signed ? value >> missing_bits : static_cast<std::int64_t>(bits);
    if (!is_signed && values[i] < 0) bad_input("{} holds {}: must be less than 2^63", label, bits);
  }
  return values;
}

Array to_floats(StoredArray array, TypeWish const& wish, std::string const& label) {
  msda_dtype const type = stored_type(array, wish);
  if (type == MSDA_DTYPE_NONE) {
    bool const is_bits = array.kind == 'u' && !wish.flag.empty() &&
                         (array.item_bytes == 2 || (array.item_bytes == 1 && wish.takes_scaled));
    if (is_bits) {
      bad_input("{} has dtype '{}': say what its bits are with {} {}", label, array.descr(),
                wish.flag, array.item_bytes == 2 ? "bf16 or f16" : "f8_e4m3");
    }
    bad_input("{} has dtype '{}': must be {}", label, array.descr(),
              wish.takes_scaled ? "float64, float32, float16, bfloat16 or float8_e4m3"
                                : "float64, float32, float16 or bfloat16");
  }
  return {type, std::move(array.shape), std::move(array.bytes)};
}

std::vector<std::int32_t> to_sizes(std::vector<std::int64_t> const& values,
                                   std::string const& label) {
  std::vector<std::int32_t> sizes;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] > std::numeric_limits<std::int32_t>::max()) {
      bad_input("{} holds {} at position {}: must be from 0 to {}", label, values[i], i,
                std::numeric_limits<std::int32_t>::max());
    }
    sizes.push_back(static_cast<std::int32_t>(values[i]));
  }
  return sizes;
}

StoredArray parse_npy(Bytes file, std::string_view name) {
  Header const header = find_header(file, name);
  Description const description = parse_dictionary(header.dictionary, name);
  StoredArray array;
  parse_descr(description.descr, array, name);
  array.shape = description.shape;
  std::size_t const expected = byte_count(array.shape, array.item_bytes, name);
  std::size_t const present = file.size() - header.data_start;
  if (present != expected) {
    bad_input("{} has {} bytes of data: its shape {} of '{}' needs {}", name, present,
              shape_text(array.shape), array.descr(), expected);
  }
  file.erase(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(header.data_start));
  array.bytes = std::move(file);
  if (array.is_big_endian) swap_bytes(array);
  if (description.fortran_order) to_c_order(array);
  return array;
}

std::string npy_descr(msda_dtype type) {
  return fmt::format("<{}{}", is_numpy_type(type) ? 'f' : 'V', type_bytes(type));
}

std::string npy_header(std::string_view descr, Shape const& shape) {
  std::string dictionary =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                  join(shape, ", "), shape.size() == 1 ? "," : "");
  std::size_t const unpadded = kMagic.size() + 4 + dictionary.size() + 1;
  dictionary.append((kHeaderAlignment - unpadded % kHeaderAlignment) % kHeaderAlignment, ' ');
  dictionary += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(dictionary.size() & 0xFF),
             static_cast<char>(dictionary.size() >> 8)};
  return header + dictionary;
}

}  // namespace msda::command
