// A file to be written: whole or not at all, also where others write it at the same time, where a
// signal comes and where the disk is full.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace msda::command {

// Which file a path names, whatever the path: device and inode.
using FileIdentity = std::pair<dev_t, ino_t>;
std::optional<FileIdentity> file_identity(std::filesystem::path const& path);

void write_bytes(int descriptor, std::span<const std::byte> bytes);

// An open file, which is closed again unless it is standard input; a negative number: none.
struct Descriptor {
  explicit Descriptor(int opened) : number(opened) {}
  Descriptor(Descriptor const&) = delete;
  ~Descriptor() {
    if (number > STDIN_FILENO) ::close(number);
  }
  int number;
};

// A new file beside another that it is to replace. It is removed again, also by a signal that ends
// the program, unless replace() was called.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path target);
  ~TemporaryFile();
  TemporaryFile(TemporaryFile const&) = delete;

  int descriptor() const { return descriptor_; }
  void close();
  void replace();

 private:
  std::filesystem::path target_;
  std::string path_;
  int slot_ = -1;  // among those that a signal removes
  int descriptor_ = -1;
};

// The file that an option names to be written: a regular file, there or not, is replaced; a link
// stays and its target is replaced; a pipe, a device or a descriptor (`-`, /dev/stdout, /dev/fd/3)
// is written to.
class OutputFile {
 public:
  // Refuses, before the work, what cannot be written. `label` is the option, for messages.
  OutputFile(std::string path, std::string label);

  std::string const& label() const { return label_; }
  std::filesystem::path const& target() const { return target_; }
  bool is_standard_output() const { return descriptor_ == 1; }
  bool is_replaced() const { return descriptor_ < 0 && !is_special_; }
  // Whether it is this file, or would be made under this name.
  bool is_same(OutputFile const& other) const;
  std::optional<FileIdentity> identity() const;

  // Writes it all; a file that is replaced appears with commit() alone.
  void stage(std::function<void(int descriptor)> const& write);
  void commit();

 private:
  void check_folder() const;

  std::string path_;  // as the user wrote it
  std::string label_;
  std::filesystem::path target_;  // links followed
  int descriptor_ = -1;
  bool is_special_ = false;
  std::unique_ptr<TemporaryFile> temporary_;
};

}  // namespace msda::command
