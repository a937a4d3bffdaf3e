#include "core/log.h"

#include <fmt/format.h>

#include <iterator>

namespace msda {

// The buffer has room for a usual message without an allocation.
void Log::send(msda_log_level message_level, fmt::string_view format,
               fmt::format_args arguments) const {
  fmt::memory_buffer buffer;
  fmt::vformat_to(std::back_inserter(buffer), format, arguments);
  std::size_t const length = buffer.size();
  buffer.push_back('\0');  // functions of C want a terminated string
  function(user, message_level, buffer.data(), length);
}

}  // namespace msda
