// The same call again and again.
#pragma once

#include "support/runner.h"

namespace msda::test {

// How many of so many further runs of a plan give other bits than the first; all ask for the extra
// results, too. Each has its buffers at other addresses, and on a simulated GPU its threads in
// another order: there a seed gives one schedule.
int differing_runs(msda_plan const* plan, TestProblem const& problem, int runs);

}  // namespace msda::test
