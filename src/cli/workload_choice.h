// The workloads that the options ask for, as they ask for them.
#pragma once

#include "cli/options.h"
#include "lab/workloads.h"

#include <vector>

namespace msda::cli {

// The workloads that --workload names (main and all are groups), with the sizes that options
// override and then "[batch=1]" behind the name; or the one problem that the options describe.
std::vector<lab::Workload> chosen_workloads(Options const& options);

// Shapes from the workload, the rest from the options.
lab::ProblemShape workload_spec(lab::Workload const& workload, Options const& options);

}  // namespace msda::cli
