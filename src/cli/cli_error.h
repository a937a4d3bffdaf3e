// How the command ends, and the exceptions that end it early.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace msda::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitCheckFailed = 1,  // a result was wrong
  kExitBadInput = 2,     // arguments, files, or a problem that no kernel takes
  kExitLibrary = 3,      // out of memory, or a defect of the library
};

// The user's mistake. The text names what was wrong, its value and what is allowed, on one line.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <typename... Arguments>
[[noreturn]] void bad_input(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  throw InputError(fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace msda::cli
