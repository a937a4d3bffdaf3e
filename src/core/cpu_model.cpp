#include "core/cpu_model.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string_view>

namespace msda {
namespace {

// The text behind the first line of that name.
std::string_view value_of(std::string_view text, std::string_view name) {
  std::size_t const at = text.find(name);
  if (at == std::string_view::npos) return {};
  std::string_view const line = text.substr(at, text.find('\n', at) - at);
  std::size_t const colon = line.find(": ");
  return colon == std::string_view::npos ? std::string_view() : line.substr(colon + 2);
}

}  // namespace

std::string cpu_model() {
  // The first processor's lines are enough, and fit.
  std::array<char, 4096> buffer{};
  int const file = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
  if (file < 0) return "unknown";
  ssize_t const length = read(file, buffer.data(), buffer.size());
  close(file);
  std::string_view const text(buffer.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  if (std::string_view const model = value_of(text, "model name"); !model.empty()) {
    return std::string(model);
  }
  std::string_view const maker = value_of(text, "CPU implementer");
  std::string_view const part = value_of(text, "CPU part");
  if (maker.empty() || part.empty()) return "unknown";
  return std::string(maker) + " " + std::string(part);
}

}  // namespace msda
