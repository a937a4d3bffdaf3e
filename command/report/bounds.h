// The least time in which a GPU does what a kernel asks of it, resource by resource.
#pragma once

#include "command/measure/gpu_rates.h"
#include "core/counts.h"

#include <string_view>

namespace msda::command {

// Microseconds. The least of L2 and device memory are those where a sector is read once by all SMs,
// the most where every gather misses what is before it.
struct Bounds {
  double hbm = 0;
  double hbm_most = 0;
  double l2 = 0;
  double l2_most = 0;
  double l1 = 0;     // its data pipe, every gather a hit
  double issue = 0;  // 0: instructions were not counted
  double launch = 0;

  double largest() const;
  std::string_view binding() const;  // "L1 data pipe"
};

Bounds bounds_of(Counts const& counts, GpuRates const& rates);

// L1 wavefronts as hardware counts them: loads that touch many lines take more than their bytes do.
double pipe_wavefronts(Counts const& counts, GpuRates const& rates);

}  // namespace msda::command
