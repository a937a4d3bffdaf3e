// The results of `msda roofline`, and how they are shown as table, JSON and plot.
#pragma once

#include "command/files/csv_table.h"
#include "command/measure/gpu_rates.h"
#include "command/problem/problem_shape.h"
#include "command/report/drawing.h"
#include "core/counts.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msda::command {

// ---- the least time in which a GPU does what a kernel asks of it, resource by resource

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

// ---- times of kernels from a CSV of `msda bench`

struct MeasuredTime {
  double median_us = 0;
  double q1_us = 0;
  double q3_us = 0;
};

// `name` stands for the text in messages.
CsvTable read_times(std::string const& name, std::string_view csv);
// The time of the first row that fits; none where there is no such row, or it was not timed.
std::optional<MeasuredTime> find_time(CsvTable const& times, std::string_view workload,
                                      ProblemShape const& spec, std::string_view kernel_id);

// ---- the counts of Nsight Compute for a kernel, beside those of the library

struct ComparedCounter {
  std::string launch;   // the ID of the launch in the file
  std::string counter;  // its name there
  double measured = 0;
  std::optional<double> counted;  // none where only the hardware can know it

  std::optional<double> ratio() const {
    return counted ? std::optional(measured / *counted) : std::nullopt;
  }
};

// The counters of each launch in a CSV of `ncu --csv --page raw`. `name` stands for it in messages.
std::vector<ComparedCounter> compare_with_ncu(std::string const& name, std::string_view csv,
                                              Counts const& counts, GpuRates const& rates);

// ---- the report

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
