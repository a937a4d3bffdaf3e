#include "lab/array_files.h"

#include "core/join.h"
#include "lab/input_error.h"

#include <fmt/core.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <span>

namespace msda::lab {

struct CloseZip {
  void operator()(zip_t* archive) const { zip_discard(archive); }
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
using Archive = std::unique_ptr<zip_t, CloseZip>;
using ArchiveFile = std::unique_ptr<zip_file_t, CloseZip>;

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNpyEnding = ".npy";
// 1980-01-01, the first day that a zip archive knows: the same arrays give the same bytes.
constexpr std::time_t kArchiveTime = 315532800;

std::string zip_error_text(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  return text;
}

// Writes beside the target and renames, so that a failure leaves no half-written file.
void write_pieces(fs::path const& path, std::vector<std::span<const std::byte>> const& pieces) {
  fs::path const partial = path.string() + ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  for (auto const& piece : pieces) {
    file.write(reinterpret_cast<const char*>(piece.data()),
               static_cast<std::streamsize>(piece.size()));
  }
  file.close();
  std::error_code error;
  if (file) fs::rename(partial, path, error);
  if (!file || error) {
    std::string const reason = error ? error.message() : std::strerror(errno);
    fs::remove(partial, error);
    bad_input("{} cannot be written: {}", path.string(), reason);
  }
}

void add_to_archive(zip_t* archive, FileArray const& array) {
  // Both pieces live until zip_close(), which reads them.
  auto const fragment = [](std::span<const std::byte> bytes) {
    auto* const data = const_cast<std::byte*>(bytes.data());
    return zip_buffer_fragment_t{reinterpret_cast<zip_uint8_t*>(data), bytes.size()};
  };
  zip_buffer_fragment_t const fragments[2] = {fragment(std::as_bytes(std::span(array.header))),
                                              fragment(array.bytes)};
  zip_uint64_t const count = array.bytes.empty() ? 1 : 2;
  zip_source_t* const source = zip_source_buffer_fragment(archive, fragments, count, 0);
  std::string const name = array.name + std::string(kNpyEnding);
  zip_int64_t const index =
      source == nullptr ? -1 : zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
  if (index < 0) {
    if (source != nullptr) zip_source_free(source);
    bad_input("{} cannot be added to the archive: {}", name, zip_strerror(archive));
  }
  // Stored, as numpy.savez does: floating-point noise hardly compresses.
  zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  zip_file_set_mtime(archive, static_cast<zip_uint64_t>(index), kArchiveTime, 0);
}

void write_npz(fs::path const& path, std::vector<FileArray> const& arrays) {
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code));
  if (!archive) bad_input("{} cannot be written: {}", path.string(), zip_error_text(code));
  for (FileArray const& array : arrays) add_to_archive(archive.get(), array);
  if (zip_close(archive.get()) != 0) {
    bad_input("{} cannot be written: {}", path.string(), zip_strerror(archive.get()));
  }
  static_cast<void>(archive.release());  // zip_close() freed it
}

}  // namespace

struct NpzReader::State {
  std::string path;
  Archive archive;
  std::vector<std::string> names;
};

NpzReader::NpzReader(fs::path const& path) : state_(std::make_unique<State>()) {
  state_->path = path.string();
  std::error_code error;
  if (!fs::exists(path, error)) bad_input("{} does not exist", path.string());
  if (!fs::is_regular_file(path, error)) bad_input("{} is not a file", path.string());
  int code = 0;
  state_->archive.reset(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (!state_->archive) {
    bad_input("{} cannot be read as .npz: {}", path.string(), zip_error_text(code));
  }
  zip_int64_t const count = zip_get_num_entries(state_->archive.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* const entry =
        zip_get_name(state_->archive.get(), static_cast<zip_uint64_t>(i), ZIP_FL_ENC_GUESS);
    std::string_view name = entry == nullptr ? "" : entry;
    if (!name.ends_with(kNpyEnding)) continue;
    name.remove_suffix(kNpyEnding.size());
    state_->names.emplace_back(name);
  }
}

NpzReader::~NpzReader() = default;
NpzReader::NpzReader(NpzReader&&) noexcept = default;

std::vector<std::string> const& NpzReader::names() const { return state_->names; }

std::string const& NpzReader::path() const { return state_->path; }

bool NpzReader::has(std::string_view name) const {
  return std::find(names().begin(), names().end(), name) != names().end();
}

StoredArray NpzReader::read(std::string const& name) const {
  std::string const label = fmt::format("{}: {}", state_->path, name);
  if (!has(name)) {
    bad_input("{}: array '{}' is missing; the file has {}", state_->path, name,
              names().empty() ? "none" : join(names(), ", "));
  }
  std::string const entry = name + std::string(kNpyEnding);
  zip_stat_t stat;
  zip_stat_init(&stat);
  zip_t* const archive = state_->archive.get();
  if (zip_stat(archive, entry.c_str(), 0, &stat) != 0 || (stat.valid & ZIP_STAT_SIZE) == 0) {
    bad_input("{}: {}", label, zip_strerror(archive));
  }
  ArchiveFile const file(zip_fopen(archive, entry.c_str(), 0));
  if (!file) bad_input("{}: {}", label, zip_strerror(archive));
  // Grown as bytes arrive: the size in the directory of a damaged file may be anything.
  constexpr std::size_t kStep = std::size_t{16} << 20;
  std::vector<std::byte> content;
  while (true) {
    std::size_t const start = content.size();
    std::size_t const left = stat.size > start ? stat.size - start : 0;
    content.resize(start + std::min(kStep, left + 1));
    zip_int64_t const count = zip_fread(file.get(), content.data() + start, content.size() - start);
    if (count < 0) bad_input("{} is damaged: {}", label, zip_file_strerror(file.get()));
    content.resize(start + static_cast<std::size_t>(count));
    if (count == 0) break;
  }
  if (content.size() != stat.size) {
    bad_input("{} is damaged: {} bytes of {}", label, content.size(), stat.size);
  }
  return parse_npy(std::move(content), label);
}

std::vector<std::byte> read_file(fs::path const& path) {
  std::error_code error;
  if (!fs::exists(path, error)) bad_input("{} does not exist", path.string());
  if (!fs::is_regular_file(path, error)) bad_input("{} is not a file", path.string());
  std::vector<std::byte> bytes(fs::file_size(path));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) bad_input("{} cannot be read: {}", path.string(), std::strerror(errno));
  return bytes;
}

FileArray file_array(std::string name, Array const& array) {
  return {std::move(name), npy_header(npy_descr(array.type), array.shape), array.bytes};
}

FileArray file_array(std::string name, std::vector<std::int32_t> const& numbers,
                     Shape const& shape) {
  return {std::move(name), npy_header("<i4", shape), std::as_bytes(std::span(numbers))};
}

void check_output_path(fs::path const& path, std::string const& label,
                       std::vector<std::string> const& endings) {
  bool const is_known =
      std::find(endings.begin(), endings.end(), path.extension()) != endings.end();
  if (!is_known && !endings.empty()) {
    bad_input("{} is '{}': must end in {}", label, path.string(), join(endings, ", "));
  }
  fs::path const folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    bad_input("{} is '{}': the folder {} does not exist", label, path.string(), folder.string());
  }
  if (fs::is_directory(path, error))
    bad_input("{} is '{}': that is a folder", label, path.string());
}

void write_arrays(fs::path const& path, std::vector<FileArray> const& arrays) {
  if (path.extension() == ".npz") return write_npz(path, arrays);
  FileArray const& array = arrays.front();
  std::string const header = path.extension() == ".npy" ? array.header : std::string();
  write_pieces(path, {std::as_bytes(std::span(header)), array.bytes});
}

void write_text(fs::path const& path, std::string_view text) {
  write_pieces(path, {std::as_bytes(std::span(text))});
}

}  // namespace msda::lab
