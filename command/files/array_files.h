// The files that arrays come from and go to: .npz, .npy, and raw little-endian .bin.
#pragma once

#include "command/files/stored_array.h"

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

struct zip;  // what libzip calls a zip_t

namespace msda::command {

struct CloseZip {
  void operator()(zip* archive) const;
};
using Archive = std::unique_ptr<zip, CloseZip>;

// An open .npz: a zip archive of .npy files.
class NpzReader {
 public:
  explicit NpzReader(std::filesystem::path const& path);

  std::vector<std::string> const& names() const { return names_; }
  bool has(std::string_view name) const;
  StoredArray read(std::string const& name) const;
  std::string const& path() const { return path_; }

 private:
  std::string path_;
  Bytes content_;  // of an archive that came by a pipe
  std::size_t archive_bytes_ = 0;
  Archive archive_;
  std::vector<std::string> names_;
};

// `-` is standard input; pipes are read to their end, here and by NpzReader.
Bytes read_file(std::filesystem::path const& path);
std::string read_text(std::filesystem::path const& path);

// An array to be written; the bytes stay the caller's.
struct FileArray {
  std::string name;
  std::string header;  // of .npy; few numbers stand behind it here, not in `bytes`
  std::span<const std::byte> bytes;
};
FileArray file_array(std::string name, Array const& array);

inline constexpr std::string_view kArrayFormats[] = {".npz", ".npy", ".bin"};
// The one that a path ends in. A pipe or a device without such an ending gets .npy, or .npz where
// there are several arrays.
std::string array_format(std::filesystem::path const& path, std::size_t array_count);

// .npz, or one array as .npy or as raw .bin.
void write_arrays(int descriptor, std::string_view format, std::vector<FileArray> const& arrays);

}  // namespace msda::command
