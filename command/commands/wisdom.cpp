#include "command/commands/wisdom.h"

#include "command/files/array_files.h"
#include "command/files/input_error.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>

namespace msda::command {
namespace {

// Adds the records of a file to the engine's. Lines that are wrong are the user's mistake.
void read_wisdom(std::string const& path, Engine const& engine) {
  std::string const text = read_text(path);
  try {
    engine.handle.tuning_import(text);
  } catch (Error const& error) {
    if (error.status() != MSDA_ERROR_INVALID_ARGUMENT && error.status() != MSDA_ERROR_STALE_PLAN) {
      throw;
    }
    bad_input("{}: {}", path, error.what());
  }
}

}  // namespace

Engine make_engine(Options const& options) {
  Engine engine(options.device, options.threads);
  if (options.wisdom) read_wisdom(*options.wisdom, engine);
  engine.has_wisdom = options.wisdom.has_value();
  return engine;
}

Descriptor lock_folder(OutputFile const& file) {
  if (!file.is_replaced()) return Descriptor(-1);
  std::string const folder =
      file.target().has_parent_path() ? file.target().parent_path().string() : ".";
  int const number = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int result = -1;
  while (number >= 0 && (result = flock(number, LOCK_EX)) != 0 && errno == EINTR) {
  }
  if (result != 0) {
    fmt::print(stderr,
               "note: {} cannot be locked ({}): records that another program adds to {} now may "
               "be lost\n",
               folder, std::strerror(errno), file.target().string());
  }
  return Descriptor(number);
}

std::string merged_wisdom(OutputFile const& file, Engine const& engine) {
  Engine const merged(engine.device, 1);
  if (file.is_replaced() && file.identity()) read_wisdom(file.target().string(), merged);
  merged.handle.tuning_import(engine.handle.tuning_export());
  return merged.handle.tuning_export();
}

}  // namespace msda::command
