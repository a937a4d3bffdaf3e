// The `msda` command: a client of the public C interface.
#include "command/commands/options.h"
#include "command/files/input_error.h"
#include "command/measure/plan_runner.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace msda::command {

std::string in_own_words(std::string const& command_name, std::string message) {
  if (message.starts_with("msda_")) message.erase(0, message.find(' ') + 1);  // the function's name
  std::pair<std::string_view, std::string_view> const words[] = {
      {"handle_options.device", "--device"},
      {"handle_options.thread_count", "--threads"},
      {"plan_options.kernel_id", command_name == "run" ? "--kernel" : "--kernels"},
      {"MSDA_DEVICE_CPU (-1)", "--device cpu"},
      {"the handle's device", "--device"},
      {"problem.", ""}};
  for (auto const& [theirs, own] : words) {
    std::size_t const at = message.find(theirs);
    if (at != std::string::npos) message.replace(at, theirs.size(), own);
  }
  return message;
}

}  // namespace msda::command

namespace {

using namespace msda::command;

// One line, whatever the message holds: scripts read it.
int fail(std::string const& command_name, std::string message, int code) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  fmt::print(stderr, "msda{}{}: error: {}\n", command_name.empty() ? "" : " ", command_name,
             message);
  return code;
}

constexpr const char* kCannotWrite = "standard output cannot be written";

int exit_code_of(msda_status status) {
  bool const is_library_fault = status == MSDA_ERROR_INTERNAL || status == MSDA_ERROR_OUT_OF_MEMORY;
  return is_library_fault ? kExitLibrary : kExitBadInput;
}

}  // namespace

int main(int argc, char** argv) {
  std::string command_name;
  try {
    int const code = dispatch({argv + 1, argv + argc}, command_name);
    if (std::fflush(stdout) != 0) bad_input(kCannotWrite);
    return code;
  } catch (InputError const& error) {
    return fail(command_name, error.what(), kExitBadInput);
  } catch (msda::Error const& error) {
    return fail(command_name, in_own_words(command_name, error.what()),
                exit_code_of(error.status()));
  } catch (std::filesystem::filesystem_error const& error) {
    return fail(command_name, error.what(), kExitBadInput);
  } catch (std::system_error const& error) {
    // fmt::print() throws it where more than a buffer of text finds no room.
    if (std::ferror(stdout) == 0) return fail(command_name, error.what(), kExitLibrary);
    return fail(command_name, kCannotWrite, kExitBadInput);
  } catch (std::bad_alloc const&) {
    return fail(command_name, "there is not enough memory for these sizes", kExitBadInput);
  } catch (std::length_error const&) {
    return fail(command_name, "there is not enough memory for these sizes", kExitBadInput);
  } catch (std::exception const& error) {
    return fail(command_name, error.what(), kExitLibrary);
  }
}
