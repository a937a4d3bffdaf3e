#include "core/status.h"

#include <algorithm>
#include <cstring>
#include <iterator>

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
  constexpr std::pair<msda_status, const char*> kNames[] = {
      {MSDA_SUCCESS, "MSDA_SUCCESS"},
      {MSDA_ERROR_INVALID_ARGUMENT, "MSDA_ERROR_INVALID_ARGUMENT"},
      {MSDA_ERROR_UNSUPPORTED, "MSDA_ERROR_UNSUPPORTED"},
      {MSDA_ERROR_ABI_MISMATCH, "MSDA_ERROR_ABI_MISMATCH"},
      {MSDA_ERROR_BUFFER_TOO_SMALL, "MSDA_ERROR_BUFFER_TOO_SMALL"},
      {MSDA_ERROR_STALE_PLAN, "MSDA_ERROR_STALE_PLAN"},
      {MSDA_ERROR_OUT_OF_MEMORY, "MSDA_ERROR_OUT_OF_MEMORY"},
      {MSDA_ERROR_CUDA, "MSDA_ERROR_CUDA"},
      {MSDA_ERROR_INTERNAL, "MSDA_ERROR_INTERNAL"},
  };
  auto const* const found =
      std::ranges::find(kNames, status, &std::pair<msda_status, const char*>::first);
  return found == std::end(kNames) ? "MSDA_ERROR_UNKNOWN" : found->second;
}

const char* last_error() { return t_message; }

void set_last_error(std::string_view function, std::string_view message) noexcept {
  std::size_t at = append(0, function);
  at = append(at, ": ");
  at = append(at, message);
  t_message[at] = '\0';
}

}  // namespace msda
