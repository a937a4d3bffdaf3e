#include "core/status.h"

#include <algorithm>
#include <cstring>

namespace msda {
namespace {

constexpr std::size_t kMessageCapacity = 1024;
// A fixed buffer: recording an error must not fail for want of memory.
thread_local char t_message[kMessageCapacity] = "";

std::size_t append(std::size_t at, std::string_view text) {
  std::size_t const count = std::min(text.size(), kMessageCapacity - 1 - at);
  std::memcpy(t_message + at, text.data(), count);
  return at + count;
}

}  // namespace

const char* status_name(msda_status status) {
  switch (status) {
    case MSDA_SUCCESS:
      return "MSDA_SUCCESS";
    case MSDA_ERROR_INVALID_ARGUMENT:
      return "MSDA_ERROR_INVALID_ARGUMENT";
    case MSDA_ERROR_UNSUPPORTED:
      return "MSDA_ERROR_UNSUPPORTED";
    case MSDA_ERROR_ABI_MISMATCH:
      return "MSDA_ERROR_ABI_MISMATCH";
    case MSDA_ERROR_BUFFER_TOO_SMALL:
      return "MSDA_ERROR_BUFFER_TOO_SMALL";
    case MSDA_ERROR_STALE_PLAN:
      return "MSDA_ERROR_STALE_PLAN";
    case MSDA_ERROR_OUT_OF_MEMORY:
      return "MSDA_ERROR_OUT_OF_MEMORY";
    case MSDA_ERROR_CUDA:
      return "MSDA_ERROR_CUDA";
    case MSDA_ERROR_INTERNAL:
      return "MSDA_ERROR_INTERNAL";
    default:
      return "MSDA_ERROR_UNKNOWN";
  }
}

const char* last_error() { return t_message; }

void set_last_error(std::string_view function, std::string_view message) noexcept {
  std::size_t at = append(0, function);
  at = append(at, ": ");
  at = append(at, message);
  t_message[at] = '\0';
}

}  // namespace msda
