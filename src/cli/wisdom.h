// Tuning records in files: what `msda tune` found out, for later runs.
#pragma once

#include "cli/options.h"
#include "lab/plan_runner.h"

#include <string>

namespace msda::cli {

// The engine of the options; with --wisdom its plans take the kernels of that file where it has
// their problem.
lab::Engine make_engine(Options const& options);

// Adds the records of a file to the engine's. Lines that are wrong are the user's mistake.
void read_wisdom(std::string const& path, lab::Engine const& engine);

}  // namespace msda::cli
