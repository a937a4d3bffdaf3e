#include "cli/npy_format.h"

#include "cli/cli_error.h"

#include <fmt/ranges.h>

#include <charconv>
#include <cstring>
#include <optional>
#include <regex>
#include <utility>

namespace msda::cli {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kHeaderAlignment = 64;

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

// The text that `pattern` captures, or none.
std::optional<std::string> find(std::string const& dictionary, const char* pattern) {
  std::smatch match;
  if (!std::regex_search(dictionary, match, std::regex(pattern))) return std::nullopt;
  return match[1].str();
}

Shape parse_shape(std::string const& text, std::string_view name) {
  static const std::regex kWhole(R"(\s*(\d+\s*(,\s*\d+\s*)*,?\s*)?)");
  static const std::regex kNumber(R"(\d+)");
  if (!std::regex_match(text, kWhole))
    bad_input("{} has a .npy header with shape ({})", name, text);
  Shape shape;
  for (std::sregex_iterator match(text.begin(), text.end(), kNumber), end; match != end; ++match) {
    std::string const digits = match->str();
    std::int64_t dimension = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), dimension).ec !=
        std::errc()) {
      bad_input("{} has a dimension of {}: must be less than 2^63", name, digits);
    }
    shape.push_back(dimension);
  }
  return shape;
}

void parse_descr(std::string const& descr, StoredArray& array, std::string_view name) {
  std::smatch match;
  static const std::regex kPlain(R"(([<>|=])([fiubV])(\d{1,4}))");
  if (!std::regex_match(descr, match, kPlain)) {
    bad_input("{} has dtype '{}': must be a plain floating-point or integer type", name, descr);
  }
  array.kind = match[2].str()[0];
  array.item_bytes = std::stoul(match[3].str());
  if (match[1] == ">" && array.item_bytes > 1) {
    bad_input("{} has dtype '{}': big-endian arrays are not read, use little-endian", name, descr);
  }
}

}  // namespace

std::string StoredArray::descr() const {
  return fmt::format("{}{}{}", item_bytes == 1 ? '|' : '<', kind, item_bytes);
}

StoredArray parse_npy(std::vector<std::byte> file, std::string_view name) {
  Header const header = find_header(file, name);
  auto const descr = find(header.dictionary, R"('descr'\s*:\s*'([^']*)')");
  auto const order = find(header.dictionary, R"('fortran_order'\s*:\s*(True|False))");
  auto const shape = find(header.dictionary, R"('shape'\s*:\s*\(([^)]*)\))");
  if (!descr && find(header.dictionary, R"('descr'\s*:\s*(\[))")) {
    bad_input("{} is a structured array: must be a plain floating-point or integer array", name);
  }
  if (!descr || !order || !shape) bad_input("{} has a damaged .npy header", name);
  StoredArray array;
  parse_descr(*descr, array, name);
  array.shape = parse_shape(*shape, name);
  if (*order == "True" && array.shape.size() > 1) {
    bad_input("{} is in Fortran order: store it with numpy.ascontiguousarray", name);
  }
  std::size_t const expected = byte_count(array.shape, array.item_bytes, name);
  std::size_t const present = file.size() - header.data_start;
  if (present != expected) {
    bad_input("{} has {} bytes of data: its shape {} of '{}' needs {}", name, present,
              shape_text(array.shape), *descr, expected);
  }
  file.erase(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(header.data_start));
  array.bytes = std::move(file);
  return array;
}

std::string npy_descr(msda_dtype type) {
  bool const is_numpy_type = type != MSDA_BF16 && type != MSDA_F8_E4M3;
  return fmt::format("<{}{}", is_numpy_type ? 'f' : 'V', type_bytes(type));
}

std::string npy_header(std::string_view descr, Shape const& shape) {
  std::string dictionary =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                  fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  std::size_t const unpadded = kMagic.size() + 4 + dictionary.size() + 1;
  dictionary.append((kHeaderAlignment - unpadded % kHeaderAlignment) % kHeaderAlignment, ' ');
  dictionary += '\n';
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(dictionary.size() & 0xFF),
             static_cast<char>(dictionary.size() >> 8)};
  return header + dictionary;
}

}  // namespace msda::cli
