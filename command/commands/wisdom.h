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

// The folder of the file, from which it keeps other programs that lock as long as it is open. One
// that cannot be locked gets a note.
Descriptor lock_folder(OutputFile const& file);

// The records of the file, if there is one, with those of the engine in place of the same
// problems'.
std::string merged_wisdom(OutputFile const& file, Engine const& engine);

}  // namespace msda::command
