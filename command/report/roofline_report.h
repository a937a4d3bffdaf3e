// The results of `msda roofline` as table, JSON and plot.
#pragma once

#include "command/measure/gpu_rates.h"
#include "command/problem/problem_shape.h"
#include "command/report/bounds.h"
#include "command/report/drawing.h"
#include "command/report/measured_times.h"
#include "command/report/ncu_counters.h"
#include "core/counts.h"

#include <optional>
#include <string>
#include <vector>

namespace msda::command {

struct RooflineRow {
  std::string workload;
  ProblemShape spec;
  std::string kernel_id;
  std::optional<Counts> counts;  // none: not modelled
  Bounds bounds;
  std::optional<MeasuredTime> measured;
};

struct RooflineReport {
  GpuRates rates;
  std::string rates_source;  // "stored", or the file
  std::string times_source;  // the file, or "measured now"
  std::vector<RooflineRow> rows;
  std::vector<ComparedCounter> ncu;
};

std::string roofline_table(RooflineReport const& report);
std::string roofline_json(RooflineReport const& report);
Drawing roofline_plot(RooflineReport const& report);

}  // namespace msda::command
