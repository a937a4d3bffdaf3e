// Tuning records in files: what `msda tune` found out, for later runs.
#pragma once

#include "command/commands/options.h"
#include "command/files/output_file.h"
#include "command/measure/plan_runner.h"

#include <string>

namespace msda::command {

// The engine of the options; with --wisdom its plans take the kernels of that file where it has
// their problem.
Engine make_engine(Options const& options);

// Keeps other programs that lock from a folder, as long as it lives. A folder that cannot be locked
// gets a note.
class FolderLock {
 public:
  explicit FolderLock(OutputFile const& file);
  ~FolderLock();
  FolderLock(FolderLock const&) = delete;

 private:
  int descriptor_ = -1;
};

// The records of the file, if there is one, with those of the engine in place of the same
// problems'.
std::string merged_wisdom(OutputFile const& file, Engine const& engine);

}  // namespace msda::command
