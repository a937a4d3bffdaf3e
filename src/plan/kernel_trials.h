// Runs and times real kernels on the caller's tensors, for the tuner.
#pragma once

#include "core/cuda.h"
#include "core/device.h"
#include "core/log.h"
#include "core/problem.h"
#include "plan/selector.h"
#include "plan/tuner.h"
#include "registry.h"

#include <memory_resource>
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
  PreparedPtr take_prepared(std::size_t kernel) { return std::move(prepared_[kernel].object); }

 private:
  struct PreparedKernel {
    PreparedPtr object;
    bool is_made = false;  // the object may be null
  };

  void prepare(std::size_t kernel);
  void provide_workspace(std::size_t bytes);
  void free_workspace();
  double time_us(std::size_t kernel, int repeats);

  std::span<const Ranked> kernels_;
  TrialSetting setting_;
  Call call_;
  bool owns_workspace_;
  std::vector<PreparedKernel> prepared_;
  cuda::StreamTimer timer_;
  double start_us_;
};

}  // namespace msda
