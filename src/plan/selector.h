// Chooses the kernel that runs a problem. Each kernel says whether it takes the problem and how
// long it would need; the smallest prediction wins. A last resort (Variant) is chosen only where
// no other kernel may be.
#pragma once

#include "core/device.h"
#include "core/problem.h"
#include "registry.h"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace msda {

struct Ranked {
  KernelRef kernel;
  Reason rejected = Reason::kNone;
  std::string numbers = {};         // behind the reason, where there are any
  double predicted_us = 0;          // 0 where rejected
  std::size_t workspace_bytes = 0;  // 0 where rejected for another reason than the workspace
  bool may_be_chosen = false;       // whether a plan may take it for its predicted time
};

// Asks one kernel about a problem. workspace_limit_bytes 0: no limit.
Ranked judge(KernelRef kernel, Problem const& problem, Device const& device,
             std::size_t workspace_limit_bytes);

// All kernels that this library can run, or those given. First the one that a plan takes by
// prediction, if there is one; then all others that accept, cheapest first; then those that reject,
// in the order given, which is the registry's for all.
std::vector<Ranked> rank_kernels(Problem const& problem, Device const& device,
                                 std::size_t workspace_limit_bytes,
                                 std::span<const KernelRef> kernels = all_kernels());

// Why it was rejected, with the numbers.
std::string why_rejected(Ranked const& entry);

// One line a kernel: its rank and predicted time, or why it was rejected.
std::string explain_text(std::vector<Ranked> const& ranking);

}  // namespace msda
