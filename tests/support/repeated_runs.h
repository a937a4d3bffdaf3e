// The same call again and again.
#pragma once

#include "support/runner.h"

namespace msda::test {

// Runs of a kernel on the CPU that are to have the same bits. A sanitizer's build looks for other
// faults.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kRepeats = 10;
#else
constexpr int kRepeats = 100;
#endif

// How many of so many further runs of a plan give other bits than the first; all ask for the extra
// results, too. Each has its buffers at other addresses, and on a simulated GPU its threads in
// another order: there a seed gives one schedule.
int differing_runs(msda_plan const* plan, TestProblem const& problem, int runs);

}  // namespace msda::test
