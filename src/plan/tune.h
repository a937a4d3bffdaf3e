// A plan's kernel by measure: times the kernels on the caller's tensors and keeps what it found.
#pragma once

#include "plan/kernel_trials.h"
#include "plan/selector.h"
#include "plan/tuner.h"
#include "plan/tuning_records.h"

#include <cstddef>
#include <vector>

namespace msda {

// Leaves out the kernels that need more workspace than the sample has. The heuristic's choice is
// never left out: what the others are measured against would be missing.
void keep_those_that_fit(std::vector<Ranked>& kernels, std::size_t workspace_bytes);

struct Tuned {
  Choice choice;
  PreparedPtr prepared;  // of the chosen kernel
};

// Tunes among `kernels`, as accepting_kernels() gives them. The device is current.
Tuned tune(std::vector<Ranked> const& kernels, TrialSetting const& setting, double budget_ms);

// Adds a choice that was measured to the records.
void remember(Choice const& choice, std::vector<Ranked> const& kernels, TrialSetting const& setting,
              std::size_t workspace_limit_bytes, TuningRecords& records);

}  // namespace msda
