// Errors inside the library: one exception type that carries a status and a message for the caller.
// src/api/guard.h turns it into the status and the thread's last error; none leaves the library.
#pragma once

#include <msda.h>

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace msda {

class StatusError : public std::runtime_error {
 public:
  StatusError(msda_status status, std::string const& message)
      : std::runtime_error(message), status_(status) {}
  msda_status status() const { return status_; }

 private:
  msda_status status_;
};

template <typename... Arguments>
[[noreturn]] void fail(msda_status status, fmt::format_string<Arguments...> format,
                       Arguments&&... arguments) {
  throw StatusError(status, fmt::format(format, std::forward<Arguments>(arguments)...));
}

template <typename... Arguments>
[[noreturn]] void invalid(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  fail(MSDA_ERROR_INVALID_ARGUMENT, format, std::forward<Arguments>(arguments)...);
}

// "MSDA_SUCCESS" and so on; "MSDA_ERROR_UNKNOWN" for a value this version does not know.
const char* status_name(msda_status status);

// The calling thread's message of its last failed call. Never null; cut at 1023 characters.
const char* last_error();
void set_last_error(std::string_view function, std::string_view message) noexcept;

}  // namespace msda
