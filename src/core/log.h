// Messages to the caller's log function. Nothing is ever printed by the library itself.
#pragma once

#include <msda.h>

#include <fmt/format.h>

#include <iterator>
#include <string_view>
#include <utility>

namespace msda {

struct Log {
  msda_log_fn function = nullptr;
  void* user = nullptr;
  msda_log_level level = MSDA_LOG_OFF;

  bool wants(msda_log_level message_level) const {
    return function != nullptr && message_level <= level;
  }

  void text(msda_log_level message_level, std::string_view message) const {
    // The copy gives callers a terminated string whatever the view was.
    if (!wants(message_level)) return;
    fmt::memory_buffer buffer;
    buffer.append(message);
    send(message_level, buffer);
  }

  template <typename... Arguments>
  void write(msda_log_level message_level, fmt::format_string<Arguments...> format,
             Arguments&&... arguments) const {
    if (!wants(message_level)) return;
    fmt::memory_buffer buffer;
    fmt::format_to(std::back_inserter(buffer), format, std::forward<Arguments>(arguments)...);
    send(message_level, buffer);
  }

 private:
  void send(msda_log_level message_level, fmt::memory_buffer& buffer) const {
    std::size_t const length = buffer.size();
    buffer.push_back('\0');
    function(user, message_level, buffer.data(), length);
  }
};

}  // namespace msda
