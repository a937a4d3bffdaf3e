// Which kernel a plan gets: the one that the caller forces, the one that was tuned, or the one of
// the smallest predicted time.
#pragma once

#include "core/device.h"
#include "core/log.h"
#include "core/problem.h"
#include "plan/selector.h"
#include "plan/tuning_records.h"

#include <msda.h>

#include <cstddef>
#include <string_view>
#include <vector>

namespace msda {

// The caller's words about it, checked.
struct KernelWish {
  msda_plan_mode mode = MSDA_PLAN_HEURISTIC;
  std::string_view kernel_id;             // MSDA_PLAN_FORCED
  std::size_t workspace_limit_bytes = 0;  // 0: no limit
};

// Throws MSDA_ERROR_UNSUPPORTED with the reason of each kernel that was asked where none takes the
// problem, MSDA_ERROR_INVALID_ARGUMENT where there is none of a forced id. Of MSDA_PLAN_TUNED
// without a record that holds, it is the predicted one.
Ranked choose_kernel(KernelWish const& wish, Problem const& problem, Device const& device,
                     TuningRecords const& records, Log const& log);

// The kernels that take a problem: the one that a plan takes by prediction, then the others,
// cheapest first. Throws MSDA_ERROR_UNSUPPORTED with the reason of each where a prediction can
// choose none.
std::vector<Ranked> accepting_kernels(Problem const& problem, Device const& device,
                                      std::size_t workspace_limit_bytes);

// Kernels of a blob; both throw MSDA_ERROR_STALE_PLAN where this library has no such kernel, or it
// does not take the problem.
KernelRef find_stored_kernel(std::string_view id);
Ranked accept_stored_kernel(KernelRef kernel, Problem const& problem, Device const& device);

}  // namespace msda
