// The results of `msda bench` as table, JSON, CSV and plot.
#pragma once

#include "command/check/accuracy_check.h"
#include "command/measure/plan_runner.h"
#include "command/report/drawing.h"

#include <cstdint>
#include <string>
#include <vector>

namespace msda::command {

struct BenchRow {
  std::string workload;
  unsigned threads = 1;
  ProblemShape spec;
  std::string kernel_id;
  double predicted_us = 0;
  std::size_t workspace_bytes = 0;
  CheckMode check_mode = CheckMode::kSample;
  std::string reference_id;        // what the results are compared with
  std::int64_t element_count = 0;  // of all results, compared or not
  Accuracy accuracy;
  Timing timing;  // empty if the check failed

  bool is_timed() const { return !timing.microseconds.empty(); }
};

struct BenchSettings {
  std::vector<unsigned> threads;  // of one run after the other
  std::int64_t seed = 0;
  std::int64_t warmup = 0;
  std::size_t flush_bytes = 0;

  std::string machine() const;  // with its threads
};

std::string bench_table(std::vector<BenchRow> const& rows, BenchSettings const& settings);
std::string bench_json(std::vector<BenchRow> const& rows, BenchSettings const& settings);
// The format of bench/baselines.
std::string bench_csv(std::vector<BenchRow> const& rows);
Drawing bench_plot(std::vector<BenchRow> const& rows, BenchSettings const& settings);

}  // namespace msda::command
