// The files that arrays come from and go to: .npz, .npy, and raw little-endian .bin.
#pragma once

#include "command/files/stored_array.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msda::command {

// An open .npz: a zip archive of .npy files.
class NpzReader {
 public:
  explicit NpzReader(std::filesystem::path const& path);
  ~NpzReader();
  NpzReader(NpzReader&&) noexcept;

  std::vector<std::string> const& names() const;
  bool has(std::string_view name) const;
  StoredArray read(std::string const& name) const;
  std::string const& path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// `-` is standard input; pipes are read to their end, here and by NpzReader.
Bytes read_file(std::filesystem::path const& path);
std::string read_text(std::filesystem::path const& path);

// An array to be written; the bytes stay the caller's.
struct FileArray {
  std::string name;
  std::string header;  // of .npy
  std::span<const std::byte> bytes;
};
FileArray file_array(std::string name, Array const& array);
FileArray file_array(std::string name, std::vector<std::int32_t> const& numbers,
                     Shape const& shape);

inline constexpr std::string_view kArrayFormats[] = {".npz", ".npy", ".bin"};
// The one that a path ends in. A pipe or a device without such an ending gets .npy, or .npz where
// there are several arrays.
std::string array_format(std::filesystem::path const& path, std::size_t array_count);

// .npz, or one array as .npy or as raw .bin.
void write_arrays(int descriptor, std::string_view format, std::vector<FileArray> const& arrays);

}  // namespace msda::command
