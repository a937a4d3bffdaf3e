// The workloads that the options ask for, as they ask for them.
#pragma once

#include "command/commands/options.h"
#include "command/problem/workloads.h"

#include <vector>

namespace msda::command {

// The workloads that --workload names (main and all are groups), with the sizes that options
// override and then "[batch=1]" behind the name; or the one problem that the options describe, or
// `otherwise` where they do neither.
std::vector<Workload> chosen_workloads(Options const& options, const char* otherwise = "main");

// Shapes from the workload, the rest from the options.
ProblemShape workload_spec(Workload const& workload, Options const& options);

}  // namespace msda::command
