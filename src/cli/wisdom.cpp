#include "cli/wisdom.h"

#include "lab/array_files.h"
#include "lab/input_error.h"

namespace msda::cli {

using namespace lab;

Engine make_engine(Options const& options) {
  Engine engine(options.device, options.threads);
  if (options.wisdom) read_wisdom(*options.wisdom, engine);
  engine.has_wisdom = options.wisdom.has_value();
  return engine;
}

void read_wisdom(std::string const& path, Engine const& engine) {
  std::vector<std::byte> const bytes = read_file(path);
  std::string const text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  try {
    engine.handle.tuning_import(text);
  } catch (Error const& error) {
    if (error.status() != MSDA_ERROR_INVALID_ARGUMENT && error.status() != MSDA_ERROR_STALE_PLAN) {
      throw;
    }
    bad_input("{}: {}", path, error.what());
  }
}

}  // namespace msda::cli
