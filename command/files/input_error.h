// The user's mistake. The text names what was wrong, its value and what is allowed, on one line.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <utility>

namespace msda::command {

struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename... Arguments>
[[noreturn]] void bad_input(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw InputError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace msda::command
