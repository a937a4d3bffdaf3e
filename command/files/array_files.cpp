#include "command/files/array_files.h"

#include "command/files/input_error.h"
#include "command/files/output_file.h"
#include "core/join.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zip.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <system_error>

namespace msda::command {

void CloseZip::operator()(zip* archive) const { zip_discard(archive); }

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNpyEnding = ".npy";
// 1980-01-01, the first day that a zip archive knows: the same arrays give the same bytes.
constexpr std::time_t kArchiveTime = 315532800;

constexpr std::size_t kReadStep = std::size_t{16} << 20;

// All that `read` gives, which returns how many bytes came and 0 at the end. `likely_bytes` of
// memory are taken at once.
template <typename Read>
Bytes read_all(std::size_t likely_bytes, Read const& read) {
  Bytes content(likely_bytes);
  std::size_t length = 0;
  while (true) {
    if (length == content.size()) {
      std::byte more;  // one byte alone, so that what is as long as likely is never copied
      if (read(std::span(&more, 1)) == 0) break;
      content.resize(length + kReadStep);
      content[length++] = more;
    }
    std::size_t const count = read(std::span(content).subspan(length));
    length += count;
    if (count == 0) break;
  }
  content.resize(length);
  return content;
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

// The file that libzip writes an archive to, from its beginning.
struct ZipTarget {
  int descriptor;
  zip_error_t error;
};

zip_int64_t move_to(ZipTarget& target, void* data, zip_uint64_t length) {
  struct stat status{};
  off_t const position = lseek(target.descriptor, 0, SEEK_CUR);
  if (position < 0 || fstat(target.descriptor, &status) != 0) return -1;
  zip_int64_t const next = zip_source_seek_compute_offset(static_cast<zip_uint64_t>(position),
                                                          static_cast<zip_uint64_t>(status.st_size),
                                                          data, length, &target.error);
  return next < 0 || lseek(target.descriptor, next, SEEK_SET) < 0 ? -1 : 0;
}

zip_int64_t zip_target(void* state, void* data, zip_uint64_t length, zip_source_cmd_t command) {
  auto& target = *static_cast<ZipTarget*>(state);
  switch (command) {
    case ZIP_SOURCE_SUPPORTS:
      return zip_source_make_command_bitmap(
          ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR,
          ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, ZIP_SOURCE_BEGIN_WRITE,
          ZIP_SOURCE_COMMIT_WRITE, ZIP_SOURCE_ROLLBACK_WRITE, ZIP_SOURCE_WRITE,
          ZIP_SOURCE_SEEK_WRITE, ZIP_SOURCE_TELL_WRITE, ZIP_SOURCE_REMOVE, -1);
    case ZIP_SOURCE_STAT:
      zip_stat_init(static_cast<zip_stat_t*>(data));
      return sizeof(zip_stat_t);
    case ZIP_SOURCE_WRITE:
      try {
        write_bytes(target.descriptor, {static_cast<const std::byte*>(data), length});
      } catch (std::system_error const& error) {
        zip_error_set(&target.error, ZIP_ER_WRITE, error.code().value());
        return -1;
      }
      return static_cast<zip_int64_t>(length);
    case ZIP_SOURCE_SEEK_WRITE:
      return move_to(target, data, length);
    case ZIP_SOURCE_TELL_WRITE:
      return lseek(target.descriptor, 0, SEEK_CUR);
    case ZIP_SOURCE_ERROR:
      return zip_error_to_data(&target.error, data, length);
    default:
      return 0;
  }
}

// To a file that can be written at any place.
void write_npz(int descriptor, std::vector<FileArray> const& arrays) {
  ZipTarget target{descriptor, {}};
  zip_error_init(&target.error);
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source = zip_source_function_create(zip_target, &target, &error);
  Archive archive(source == nullptr
                      ? nullptr
                      : zip_open_from_source(source, ZIP_CREATE | ZIP_TRUNCATE, &error));
  if (!archive) {
    if (source != nullptr) zip_source_free(source);
    throw std::runtime_error(zip_error_strerror(&error));
  }
  for (FileArray const& array : arrays) add_to_archive(archive.get(), array);
  if (zip_close(archive.get()) != 0) {
    int const number = zip_error_code_system(zip_get_error(archive.get()));
    throw std::system_error(number == 0 ? EIO : number, std::generic_category());
  }
  static_cast<void>(archive.release());  // zip_close() freed it
}

// To a pipe: the archive is made in a file without a name first.
void copy_npz(int descriptor, std::vector<FileArray> const& arrays) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> const file(std::tmpfile(), std::fclose);
  if (!file) throw std::system_error(errno, std::generic_category());
  write_npz(fileno(file.get()), arrays);
  std::rewind(file.get());
  Bytes part(kReadStep);
  while (std::size_t const count = std::fread(part.data(), 1, part.size(), file.get())) {
    write_bytes(descriptor, std::span(part).first(count));
  }
}

// An open file to read; `-` is standard input.
class InputFile {
 public:
  explicit InputFile(fs::path const& path)
      : path_(path), file_(path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (file_.number < 0 && errno == ENOENT) bad_input("{} does not exist", path.string());
    if (file_.number < 0 || fstat(file_.number, &status_) != 0) fail(errno);
    if (S_ISDIR(status_.st_mode)) bad_input("{} is not a file", path.string());
  }

  bool is_regular() const { return S_ISREG(status_.st_mode); }
  std::size_t size() const { return static_cast<std::size_t>(status_.st_size); }
  Bytes read_all() const {
    return command::read_all(is_regular() ? size() : 0, [this](std::span<std::byte> bytes) {
      ssize_t count = 0;
      do {
        count = read(file_.number, bytes.data(), bytes.size());
      } while (count < 0 && errno == EINTR);
      if (count < 0) fail(errno);
      return static_cast<std::size_t>(count);
    });
  }

 private:
  [[noreturn]] void fail(int error) const {
    bad_input("{} cannot be read: {}", path_.string(), std::strerror(error));
  }

  fs::path const& path_;
  Descriptor file_;
  struct stat status_{};
};

}  // namespace

NpzReader::NpzReader(fs::path const& path) : path_(path.string()) {
  InputFile const file(path);
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = nullptr;
  if (file.is_regular() && path != "-") {
    archive_bytes_ = file.size();
    source = zip_source_file_create(path.c_str(), 0, -1, &error);
  } else {
    content_ = file.read_all();
    archive_bytes_ = content_.size();
    source = zip_source_buffer_create(content_.data(), content_.size(), 0, &error);
  }
  if (source != nullptr) archive_.reset(zip_open_from_source(source, ZIP_RDONLY, &error));
  if (!archive_) {
    if (source != nullptr) zip_source_free(source);
    bad_input("{} cannot be read as .npz: {}", path.string(), zip_error_strerror(&error));
  }
  zip_int64_t const count = zip_get_num_entries(archive_.get(), 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* const entry =
        zip_get_name(archive_.get(), static_cast<zip_uint64_t>(i), ZIP_FL_ENC_GUESS);
    std::string_view name = entry == nullptr ? "" : entry;
    if (!name.ends_with(kNpyEnding)) continue;
    name.remove_suffix(kNpyEnding.size());
    if (has(name)) bad_input("{} has the array '{}' twice", path_, name);
    names_.emplace_back(name);
  }
}

bool NpzReader::has(std::string_view name) const {
  return std::find(names().begin(), names().end(), name) != names().end();
}

StoredArray NpzReader::read(std::string const& name) const {
  std::string const label = fmt::format("{}: {}", path_, name);
  if (!has(name)) {
    bad_input("{}: array '{}' is missing; the file has {}", path_, name,
              names().empty() ? "none" : join(names(), ", "));
  }
  std::string const entry = name + std::string(kNpyEnding);
  zip_stat_t stat;
  zip_stat_init(&stat);
  zip_t* const archive = archive_.get();
  if (zip_stat(archive, entry.c_str(), 0, &stat) != 0 || (stat.valid & ZIP_STAT_SIZE) == 0) {
    bad_input("{}: {}", label, zip_strerror(archive));
  }
  std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> const file(zip_fopen(archive, entry.c_str(), 0),
                                                               zip_fclose);
  if (!file) bad_input("{}: {}", label, zip_strerror(archive));
  // Stored, it is no longer than the archive: else its size in the directory may be anything.
  bool const is_stored =
      (stat.valid & ZIP_STAT_COMP_METHOD) != 0 && stat.comp_method == ZIP_CM_STORE;
  std::size_t const likely_bytes = is_stored ? std::min<std::size_t>(stat.size, archive_bytes_) : 0;
  Bytes content = read_all(likely_bytes, [&](std::span<std::byte> bytes) {
    zip_int64_t const count = zip_fread(file.get(), bytes.data(), bytes.size());
    if (count < 0) bad_input("{} is damaged: {}", label, zip_file_strerror(file.get()));
    return static_cast<std::size_t>(count);
  });
  if (content.size() != stat.size) {
    bad_input("{} is damaged: {} bytes of {}", label, content.size(), stat.size);
  }
  return parse_npy(std::move(content), label);
}

Bytes read_file(fs::path const& path) { return InputFile(path).read_all(); }

std::string read_text(fs::path const& path) {
  Bytes const bytes = read_file(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

FileArray file_array(std::string name, Array const& array) {
  return {std::move(name), npy_header(npy_descr(array.type), array.shape), array.bytes};
}

std::string array_format(fs::path const& path, std::size_t array_count) {
  std::string const ending = path.extension().string();
  bool const is_known = std::ranges::find(kArrayFormats, ending) != std::end(kArrayFormats);
  return is_known ? ending : array_count == 1 ? ".npy" : ".npz";
}

void write_arrays(int descriptor, std::string_view format, std::vector<FileArray> const& arrays) {
  if (format == ".npz") {
    bool const is_seekable = lseek(descriptor, 0, SEEK_CUR) == 0;
    return is_seekable ? write_npz(descriptor, arrays) : copy_npz(descriptor, arrays);
  }
  FileArray const& array = arrays.front();
  if (format == ".npy") write_bytes(descriptor, std::as_bytes(std::span(array.header)));
  write_bytes(descriptor, array.bytes);
}

}  // namespace msda::command
