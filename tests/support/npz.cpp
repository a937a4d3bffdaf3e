#include "support/npz.h"

#include <fmt/core.h>
#include <zlib.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>

namespace msda::test {
namespace {

// https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.16.
constexpr std::size_t kLocalHeaderBytes = 30, kEntryBytes = 46, kEndBytes = 22;

std::uint64_t number(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint64_t result = 0;
  if (at + count > bytes.size()) throw std::runtime_error("cut short");
  std::memcpy(&result, bytes.data() + at, count);
  return result;
}

std::string inflate_raw(std::string_view packed, std::size_t unpacked_bytes) {
  std::string unpacked(unpacked_bytes, '\0');
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(unpacked.data());
  stream.avail_out = static_cast<uInt>(unpacked.size());
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::runtime_error("zlib does not start");
  int const status = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  if (status != Z_STREAM_END || stream.avail_out != 0) throw std::runtime_error("damaged");
  return unpacked;
}

// What stands behind 'key': in the header, a Python dictionary.
std::string_view header_value(std::string_view header, std::string_view key) {
  std::size_t const at = header.find(fmt::format("'{}': ", key));
  if (at == std::string_view::npos) throw std::runtime_error(fmt::format("no '{}' in .npy", key));
  return header.substr(at + key.size() + 4);
}

NpzArray parse_npy(std::string_view file) {
  if (!file.starts_with("\x93NUMPY\x01")) throw std::runtime_error("no .npy file of version 1");
  std::size_t const header_bytes = number(file, 8, 2);
  std::string_view const header = file.substr(10, header_bytes);
  NpzArray array;
  std::size_t count = 1;
  std::string_view const shape = header_value(header, "shape");
  for (std::size_t i = 1; shape.at(i) != ')';) {
    std::size_t digits = 0;
    array.shape.push_back(std::stoll(std::string(shape.substr(i)), &digits));
    count *= static_cast<std::size_t>(array.shape.back());
    i += digits;
    while (shape.at(i) == ',' || shape.at(i) == ' ') ++i;
  }
  bool const is_int = header_value(header, "descr").starts_with("'<i4'");
  bool const is_double = header_value(header, "descr").starts_with("'<f8'");
  bool const in_c_order = header_value(header, "fortran_order").starts_with("False");
  if ((!is_int && !is_double) || !in_c_order) throw std::runtime_error("not <f8 or <i4 in C order");
  std::string_view const data = file.substr(10 + header_bytes);
  if (data.size() != count * (is_int ? 4 : 8)) throw std::runtime_error("size and shape differ");
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t const bits = number(data, i * (is_int ? 4 : 8), is_int ? 4 : 8);
    double as_double = 0;
    std::memcpy(&as_double, &bits, 8);
    array.values.push_back(is_int ? static_cast<std::int32_t>(bits) : as_double);
  }
  return array;
}

std::map<std::string, NpzArray> parse_zip(std::string_view file) {
  if (file.size() < kEndBytes) throw std::runtime_error("cut short");
  std::size_t const end = file.size() - kEndBytes;
  if (number(file, end, 4) != 0x06054b50) throw std::runtime_error("no zip archive");
  std::map<std::string, NpzArray> arrays;
  std::size_t entry = number(file, end + 16, 4);
  for (std::size_t left = number(file, end + 10, 2); left > 0; --left) {
    std::size_t const method = number(file, entry + 10, 2);
    std::size_t const packed = number(file, entry + 20, 4), unpacked = number(file, entry + 24, 4);
    std::size_t const name_bytes = number(file, entry + 28, 2);
    std::size_t const extra_bytes = number(file, entry + 30, 2) + number(file, entry + 32, 2);
    std::size_t const local = number(file, entry + 42, 4);
    std::string name(file.substr(entry + kEntryBytes, name_bytes));
    std::size_t const data =
        local + kLocalHeaderBytes + number(file, local + 26, 2) + number(file, local + 28, 2);
    std::string_view const stored = file.substr(data, packed);
    if (name.ends_with(".npy")) name.resize(name.size() - 4);
    arrays[name] = parse_npy(method == 0 ? std::string(stored) : inflate_raw(stored, unpacked));
    entry += kEntryBytes + name_bytes + extra_bytes;
  }
  return arrays;
}

}  // namespace

std::map<std::string, NpzArray> read_npz(std::string const& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error(fmt::format("{}: cannot be opened", path));
  std::string const file{std::istreambuf_iterator<char>(stream), {}};
  try {
    return parse_zip(file);
  } catch (std::exception const& error) {
    throw std::runtime_error(fmt::format("{}: {}", path, error.what()));
  }
}

}  // namespace msda::test
