// Tuning records in files: what `msda tune` found out, for later runs.
#pragma once

#include "cli/options.h"
#include "lab/output_file.h"
#include "lab/plan_runner.h"

#include <string>

namespace msda::cli {

// The engine of the options; with --wisdom its plans take the kernels of that file where it has
// their problem.
lab::Engine make_engine(Options const& options);

// Adds the records of a file to the engine's. Lines that are wrong are the user's mistake.
void read_wisdom(std::string const& path, lab::Engine const& engine);

// Keeps other programs that lock from a folder, as long as it lives. A folder that cannot be locked
// gets a note.
class FolderLock {
 public:
  explicit FolderLock(lab::OutputFile const& file);
  ~FolderLock();
  FolderLock(FolderLock const&) = delete;

 private:
  int descriptor_ = -1;
};

// The records of the file, if there is one, with those of the engine in place of the same
// problems'.
std::string merged_wisdom(lab::OutputFile const& file, lab::Engine const& engine);

}  // namespace msda::cli
