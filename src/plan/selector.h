// Which kernel runs a problem: every kernel is asked, those that accept are sorted by predicted
// time.
#pragma once

#include "core/device.h"
#include "core/problem.h"
#include "registry.h"

#include <cstddef>
#include <string>
#include <vector>

namespace msda {

struct Ranked {
  KernelRef kernel;
  Reason rejected = Reason::kNone;
  double predicted_us = 0;          // 0 where rejected
  std::size_t workspace_bytes = 0;  // 0 where rejected for another reason than the workspace
};

// What one kernel makes of a problem. workspace_limit_bytes 0: no limit.
Ranked judge(KernelRef kernel, Problem const& problem, Device const& device,
             std::size_t workspace_limit_bytes);

// All kernels: the accepting ones first, cheapest first, then the others in the registry's order.
std::vector<Ranked> rank_kernels(Problem const& problem, Device const& device,
                                 std::size_t workspace_limit_bytes);

// One line a kernel: its rank and predicted time, or why it was rejected.
std::string explain_text(std::vector<Ranked> const& ranking);

}  // namespace msda
