// The counts of Nsight Compute for a kernel, beside those of the library.
#pragma once

#include "command/measure/gpu_rates.h"
#include "core/counts.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msda::command {

struct ComparedCounter {
  std::string launch;   // the ID of the launch in the file
  std::string counter;  // its name there
  double measured = 0;
  std::optional<double> counted;  // none where only the hardware can know it

  std::optional<double> ratio() const;  // of measured to counted
};

// The counters of each launch in a CSV of `ncu --csv --page raw`. `name` stands for it in messages.
std::vector<ComparedCounter> compare_with_ncu(std::string const& name, std::string_view csv,
                                              Counts const& counts, GpuRates const& rates);

}  // namespace msda::command
