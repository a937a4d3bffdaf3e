// The files that arrays come from and go to: .npz, .npy, and raw little-endian .bin.
#pragma once

#include "lab/npy_format.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msda::lab {

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

std::vector<std::byte> read_file(std::filesystem::path const& path);

// An array to be written; the bytes stay the caller's.
struct FileArray {
  std::string name;
  std::string header;  // of .npy
  std::span<const std::byte> bytes;
};
FileArray file_array(std::string name, Array const& array);
FileArray file_array(std::string name, std::vector<std::int32_t> const& numbers,
                     Shape const& shape);

// Whether a file can be written there; `label` is the option that names it. Called before the work,
// so that a wrong path costs nothing.
void check_output_path(std::filesystem::path const& path, std::string const& label,
                       std::vector<std::string> const& endings);

// .npz, or one array as .npy or as raw .bin. Either the whole file is there afterwards, or what was
// there before.
void write_arrays(std::filesystem::path const& path, std::vector<FileArray> const& arrays);
void write_text(std::filesystem::path const& path, std::string_view text);

}  // namespace msda::lab
