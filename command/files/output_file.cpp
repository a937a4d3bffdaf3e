#include "command/files/output_file.h"

#include "command/files/input_error.h"

#include <fcntl.h>
#include <sys/syscall.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace msda::command {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as Linux follows
constexpr int kEndingSignals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE};

// Names of files that a signal has to remove; a handler may read nothing that takes a lock.
std::array<std::atomic<const char*>, 8> temporaries;

extern "C" void remove_temporaries(int number) {
  for (auto const& path : temporaries) {
    if (const char* const name = path.load()) unlink(name);
  }
  raise(number);  // the handler is reset: the program dies by the signal
}

// Signals that the caller had the program ignore, as nohup does, stay ignored.
void handle_signals() {
  for (int const number : kEndingSignals) {
    struct sigaction action{};
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action.sa_handler = remove_temporaries;
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
    sigaction(number, &action, nullptr);
  }
  signal(SIGXFSZ, SIG_IGN);  // a file beyond the limit is an error of write()
}

int take_slot(const char* name) {
  static bool const is_ready = (handle_signals(), true);
  static_cast<void>(is_ready);
  for (std::size_t i = 0; i < temporaries.size(); ++i) {
    const char* empty = nullptr;
    if (temporaries[i].compare_exchange_strong(empty, name)) return static_cast<int>(i);
  }
  throw std::length_error("too many temporary files");
}

// 64 random bits: no two programs take one name, so a signal never removes another's file. The
// kernel gives them where there is no /dev, and std::random_device where it is older than 3.17.
std::string temporary_name(fs::path const& target) {
  std::uint64_t bits = 0;
  if (syscall(SYS_getrandom, &bits, sizeof bits, 0) != sizeof bits) {
    std::random_device random;
    bits = std::uint64_t{random()} << 32 | random();
  }
  return fmt::format("{}.{:016x}", target.string(), bits);
}

// The number of the descriptor that a path stands for.
std::optional<int> descriptor_of(fs::path const& path) {
  std::string const name = fs::absolute(path).lexically_normal().string();
  for (std::string_view const folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!name.starts_with(folder)) continue;
    int number = -1;
    const char* const end = name.data() + name.size();
    if (std::from_chars(name.data() + folder.size(), end, number).ptr == end) return number;
  }
  return std::nullopt;
}

[[noreturn]] void cannot_write(fs::path const& path, int error) {
  bad_input("{} cannot be written: {}", path.string(), std::strerror(error));
}

FileIdentity identity_of(struct stat const& status) { return {status.st_dev, status.st_ino}; }

fs::path folder_of(fs::path const& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

std::optional<FileIdentity> file_identity(fs::path const& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return identity_of(status);
}

void write_bytes(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    ssize_t const count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw std::system_error(errno, std::generic_category());
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

// ---- TemporaryFile

TemporaryFile::TemporaryFile(fs::path target)
    : target_(std::move(target)), path_(temporary_name(target_)), slot_(take_slot(path_.c_str())) {
  descriptor_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  int const error = errno;
  if (descriptor_ < 0) {
    temporaries[static_cast<std::size_t>(slot_)] = nullptr;
    cannot_write(target_, error);
  }
  struct stat old{};  // whose permissions stay
  if (stat(target_.c_str(), &old) == 0) fchmod(descriptor_, old.st_mode & 07777);
}

TemporaryFile::~TemporaryFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (slot_ < 0) return;
  unlink(path_.c_str());
  temporaries[static_cast<std::size_t>(slot_)] = nullptr;
}

void TemporaryFile::close() {
  int const result = ::close(descriptor_);
  descriptor_ = -1;
  if (result != 0) cannot_write(target_, errno);
}

void TemporaryFile::replace() {
  if (rename(path_.c_str(), target_.c_str()) != 0) cannot_write(target_, errno);
  temporaries[static_cast<std::size_t>(slot_)] = nullptr;
  slot_ = -1;
}

// ---- OutputFile

OutputFile::OutputFile(std::string path, std::string label)
    : path_(std::move(path)), label_(std::move(label)), target_(path_) {
  descriptor_ = path_ == "-" ? STDOUT_FILENO : descriptor_of(target_).value_or(-1);
  for (int links = 0; descriptor_ < 0; ++links) {
    std::error_code error;
    fs::path const next = fs::read_symlink(target_, error);
    if (error) break;
    if (links == kMostLinks) bad_input("{} is '{}': too many links", label_, path_);
    target_ = target_.parent_path() / next;
    descriptor_ = descriptor_of(target_).value_or(-1);
  }
  struct stat status{};
  if (descriptor_ >= 0) {
    if (fstat(descriptor_, &status) == 0) return;
    bad_input("{} is '{}': {}", label_, path_, std::strerror(errno));
  }
  if (stat(target_.c_str(), &status) != 0) {
    check_folder();
    return;
  }
  if (S_ISDIR(status.st_mode)) bad_input("{} is '{}': that is a folder", label_, path_);
  if (access(target_.c_str(), W_OK) != 0) {
    bad_input("{} is '{}': {}", label_, path_, std::strerror(errno));
  }
  is_special_ = !S_ISREG(status.st_mode);
  if (is_special_) return;
  struct stat standard{};
  bool const is_open = fstat(STDOUT_FILENO, &standard) == 0;
  if (is_open && identity_of(standard) == identity_of(status)) {
    descriptor_ = STDOUT_FILENO;  // redirected there
  } else {
    check_folder();
  }
}

void OutputFile::check_folder() const {
  fs::path const folder = folder_of(target_);
  struct stat status{};
  int const error = stat(folder.c_str(), &status) == 0 ? 0 : errno;
  if (error == ENOENT || (error == 0 && !S_ISDIR(status.st_mode))) {
    bad_input("{} is '{}': the folder {} does not exist", label_, path_, folder.string());
  }
  if (error == 0 && access(folder.c_str(), W_OK | X_OK) == 0) return;
  bad_input("{} is '{}': the folder {}: {}", label_, path_, folder.string(),
            std::strerror(error == 0 ? errno : error));
}

std::optional<FileIdentity> OutputFile::identity() const {
  if (is_special_) return std::nullopt;
  if (descriptor_ < 0) return file_identity(target_);
  struct stat status{};
  bool const is_regular = fstat(descriptor_, &status) == 0 && S_ISREG(status.st_mode);
  return is_regular ? std::optional(identity_of(status)) : std::nullopt;
}

bool OutputFile::is_same(OutputFile const& other) const {
  if (descriptor_ >= 0 && descriptor_ == other.descriptor_) return true;
  std::optional<FileIdentity> const mine = identity();
  if (mine || !is_replaced() || !other.is_replaced()) return mine && mine == other.identity();
  return target_.filename() == other.target_.filename() &&
         file_identity(folder_of(target_)) == file_identity(folder_of(other.target_));
}

void OutputFile::stage(std::function<void(int)> const& write) {
  try {
    if (is_replaced()) {
      temporary_ = std::make_unique<TemporaryFile>(target_);
      write(temporary_->descriptor());
      return temporary_->close();
    }
    if (descriptor_ >= 0) return write(descriptor_);
    Descriptor const special{open(target_.c_str(), O_WRONLY | O_CLOEXEC)};
    if (special.number < 0) cannot_write(path_, errno);
    write(special.number);
  } catch (std::system_error const& error) {
    bad_input("{} cannot be written: {}", path_, error.code().message());
  }
}

void OutputFile::commit() {
  if (temporary_) temporary_->replace();
}

}  // namespace msda::command
