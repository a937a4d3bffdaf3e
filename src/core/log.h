// Messages to the caller's log function. Nothing is ever printed by the library itself.
#pragma once

#include <msda.h>

#include <fmt/core.h>

#include <cstring>

namespace msda {

struct Log {
  msda_log_fn function = nullptr;
  void* user = nullptr;
  msda_log_level level = MSDA_LOG_OFF;

  bool wants(msda_log_level message_level) const {
    return function != nullptr && message_level <= level;
  }

  // A text that ends in a NUL, as it is: allocates nothing, so that an error can always be told.
  void text(msda_log_level message_level, const char* message) const noexcept {
    if (wants(message_level)) function(user, message_level, message, std::strlen(message));
  }

  template <typename... Arguments>
  void write(msda_log_level message_level, fmt::format_string<Arguments...> format,
             Arguments&&... arguments) const {
    if (wants(message_level)) send(message_level, format, fmt::make_format_args(arguments...));
  }

 private:
  void send(msda_log_level message_level, fmt::string_view format,
            fmt::format_args arguments) const;
};

}  // namespace msda
