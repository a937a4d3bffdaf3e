// How the options say that kernels are timed.
#pragma once

#include "command/commands/options.h"
#include "command/measure/plan_runner.h"

#include <cstddef>

namespace msda::command {

// `default_flush_bytes` where --flush-mib does not say.
TimingOptions timing_options(Options const& options, std::size_t default_flush_bytes);

// Bytes that a benchmark writes between runs: enough that these start with cold caches.
std::size_t bench_flush_bytes(Options const& options);

unsigned used_threads(Options const& options);

}  // namespace msda::command
