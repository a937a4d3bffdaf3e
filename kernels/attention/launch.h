// Preparing and launching the kernel of attention.h.
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/common/launch.h"
#include "kernels/common/plan.h"

#include <algorithm>

namespace msda::attention {

// For the plan `of`, which launches one kernel more than its own.
inline Writer prepare(Problem const& problem, Device const& device, Prepared& of) {
  if (problem.backward() || !problem.fused() || !problem.has_points()) return {};
  ++of.launch_count;
  // With a limit a block an SM, so that no more of them have work.
  std::int64_t const most = device.sm_count_limit != 0 ? device.sm_count : INT32_MAX;
  bool const is_wide = problem.weight_dtype == MSDA_DTYPE_F64;
  return {is_wide ? load<double>() : load<float>(),
          std::min(divide_up(row_count(problem), kThreads / kWarp), most)};
}

// Nothing is done where the call does not ask for the attention weights.
inline void launch(Writer const& writer, Params const& params, cudaStream_t stream) {
  if (params.attention == nullptr) return;
  launch_overlapping(writer.kernel, {.blocks = writer.blocks, .threads = kThreads}, stream, params);
}

}  // namespace msda::attention
