// A plan's kernel by measure: runs and times real kernels on the caller's tensors, and keeps what
// it found.
#pragma once

#include "core/cuda.h"
#include "core/device.h"
#include "core/log.h"
#include "core/problem.h"
#include "plan/selector.h"
#include "plan/tuner.h"
#include "plan/tuning_records.h"

#include <cstddef>
#include <memory_resource>
#include <optional>
#include <span>
#include <vector>

namespace msda {

struct TrialSetting {
  Problem const& problem;
  Device const& device;
  Call const& call;  // without a workspace: each kernel gets what it needs from `scratch`
  std::pmr::memory_resource& memory;   // of what plans keep
  std::pmr::memory_resource& scratch;  // of workspaces, on the device
  Log const& log;
};

class KernelTrials final : public Trials {
 public:
  // `kernels` in the heuristic's order. They, and what the setting refers to, outlive this object.
  // The device is current.
  KernelTrials(std::span<const Ranked> kernels, TrialSetting const& setting);
  ~KernelTrials() override;
  KernelTrials(KernelTrials const&) = delete;
  KernelTrials& operator=(KernelTrials const&) = delete;

  double elapsed_ms() override;
  std::optional<double> run_us(std::size_t kernel, int repeats) override;

  // The object that prepare() made for a kernel that was run.
  PreparedPtr take_prepared(std::size_t kernel) { return *std::move(prepared_[kernel]); }

 private:
  void provide_workspace(std::size_t bytes);
  void free_workspace();
  double time_us(std::size_t kernel, int repeats);

  std::span<const Ranked> kernels_;
  TrialSetting setting_;
  Call call_ = setting_.call;
  bool owns_workspace_ = call_.workspace == nullptr;
  std::vector<std::optional<PreparedPtr>> prepared_;  // of kernels that were run; may be null
  cuda::StreamTimer timer_{setting_.device, call_.stream};
  double start_us_;
};

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
