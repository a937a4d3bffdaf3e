// The workloads that the options ask for, and how kernels are timed on them.
#pragma once

#include "command/commands/options.h"
#include "command/measure/plan_runner.h"
#include "command/problem/workloads.h"

#include <cstddef>
#include <vector>

namespace msda::command {

// The workloads that --workload names (main and all are groups), with the sizes that options
// override and then "[batch=1]" behind the name; or the one problem that the options describe, or
// `otherwise` where they do neither.
std::vector<Workload> chosen_workloads(Options const& options, const char* otherwise = "main");

// Shapes from the workload, the rest from the options.
ProblemShape workload_spec(Workload const& workload, Options const& options);

// `default_flush_bytes` where --flush-mib does not say.
TimingOptions timing_options(Options const& options, std::size_t default_flush_bytes);

// Bytes that a benchmark writes between runs: enough that these start with cold caches.
std::size_t bench_flush_bytes(Options const& options);

unsigned used_threads(Options const& options);

}  // namespace msda::command
