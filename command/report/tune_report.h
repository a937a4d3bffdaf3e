// The results of `msda tune` as table, JSON and CSV.
#pragma once

#include "command/measure/plan_runner.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace msda::command {

struct TuneRow {
  std::string workload;
  ProblemShape spec;
  std::string heuristic_id;
  Timing before;  // of the heuristic's kernel
  std::string tuned_id;
  Timing after;  // of the tuned kernel; where it is the same, the same runs
  bool is_recorded = false;

  double speedup() const { return before.median() / after.median(); }
};

struct TuneSettings {
  unsigned threads = 1;
  std::int64_t seed = 0;
  double budget_ms = 0;
  std::int64_t warmup = 0;
  std::size_t flush_bytes = 0;
};

std::string tune_table(std::vector<TuneRow> const& rows, TuneSettings const& settings);
std::string tune_json(std::vector<TuneRow> const& rows, TuneSettings const& settings);
std::string tune_csv(std::vector<TuneRow> const& rows);

}  // namespace msda::command
