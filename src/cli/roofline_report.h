// The results of `msda roofline` as table, JSON and plot.
#pragma once

#include "cli/bounds.h"
#include "cli/measured_times.h"
#include "cli/ncu_counters.h"
#include "core/counts.h"
#include "lab/gpu_rates.h"
#include "lab/problem_shape.h"

#include <optional>
#include <string>
#include <vector>

namespace msda::cli {

struct RooflineRow {
  std::string workload;
  lab::ProblemShape spec;
  std::string kernel_id;
  std::optional<Counts> counts;  // none: not modelled
  Bounds bounds;
  std::optional<MeasuredTime> measured;
};

struct RooflineReport {
  lab::GpuRates rates;
  std::string rates_source;  // "stored", or the file
  std::string times_source;  // the file, or "measured now"
  std::vector<RooflineRow> rows;
  std::vector<ComparedCounter> ncu;
};

std::string roofline_table(RooflineReport const& report);
std::string roofline_json(RooflineReport const& report);
std::string roofline_plot(RooflineReport const& report);

}  // namespace msda::cli
