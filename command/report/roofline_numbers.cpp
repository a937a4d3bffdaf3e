// Bounds, measured times and counters, of which roofline_report.h's table is made.
#include "command/report/roofline_report.h"

#include "command/files/csv_table.h"
#include "command/files/element_type.h"
#include "command/files/input_error.h"
#include "command/report/report_parts.h"
#include "core/join.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace msda::command {

// ---- the least time of each resource

namespace {

constexpr double kBytesPerUs = 1e6;  // of 1 TB/s
constexpr double kWavefrontsOfLoad = 4;

using NamedBound = std::pair<double, std::string_view>;

NamedBound largest_of(Bounds const& bounds) {
  std::array<NamedBound, 5> const all = {{{bounds.hbm, "HBM"},
                                          {bounds.l2, "L2"},
                                          {bounds.l1, "L1 data pipe"},
                                          {bounds.issue, "issue slots"},
                                          {bounds.launch, "launch"}}};
  return *std::ranges::max_element(all, {}, &NamedBound::first);
}

// Cycles in which L1 looks up the lines of the gather.
double line_cycles(Counts const& counts, GpuRates const& rates) {
  return counts.gather_loads * counts.lines_of_load / rates.lines_per_cycle;
}

// L1 wavefronts as hardware counts them: loads that touch many lines take more than their bytes do.
double pipe_wavefronts(Counts const& counts, GpuRates const& rates) {
  return counts.wavefronts() - counts.gather_wavefronts +
         std::max(counts.gather_wavefronts, line_cycles(counts, rates));
}

}  // namespace

double Bounds::largest() const { return largest_of(*this).first; }
std::string_view Bounds::binding() const { return largest_of(*this).second; }

Bounds bounds_of(Counts const& counts, GpuRates const& rates) {
  double const sm_cycles_per_us = rates.clock_mhz * rates.sm_count;
  // The fastest that was measured of any piece: a bound must not be above what the GPU can do.
  auto const fastest = [](PieceRates const& r) { return *std::ranges::max_element(r); };
  std::size_t const piece = counts.row_bytes >= 128 ? 0 : counts.row_bytes >= 64 ? 1 : 2;
  double const gather_cycles = std::max(
      counts.gather_wavefronts * rates.load_cycles / kWavefrontsOfLoad, line_cycles(counts, rates));
  double const other_wavefronts = counts.wavefronts() - counts.gather_wavefronts;
  // Pixels of cached levels are gathered from the copies.
  double const values = std::min(counts.value_bytes, counts.gathered_bytes) + counts.copied_bytes;
  double const l2_bytes = counts.input_bytes + counts.output_bytes + values;
  return {.hbm = counts.compulsory_bytes() / (fastest(rates.hbm_tb_per_s) * kBytesPerUs),
          .hbm_most = counts.most_bytes() / (rates.hbm_tb_per_s[piece] * kBytesPerUs),
          .l2 = l2_bytes / (fastest(rates.l2_tb_per_s) * kBytesPerUs),
          .l2_most = counts.most_bytes() / (rates.l2_tb_per_s[piece] * kBytesPerUs),
          .l1 = (gather_cycles + other_wavefronts) / sm_cycles_per_us,
          .issue = counts.instructions / (rates.issue_per_cycle * sm_cycles_per_us),
          .launch = rates.launch_us};
}

// ---- times from a CSV of `msda bench`

CsvTable read_times(std::string const& name, std::string_view csv) {
  CsvTable times(name, csv, "workload");
  for (const char* const column : {"operation", "kernel_id", "value_dtype", "coord_dtype",
                                   "math_mode", "input_mode", "median_us", "q1_us", "q3_us"}) {
    if (!times.has_column(column)) {
      bad_input("{}: has no column {}: must be a CSV of `msda bench`", name, column);
    }
  }
  return times;
}

std::optional<MeasuredTime> find_time(CsvTable const& times, std::string_view workload,
                                      ProblemShape const& spec, std::string_view kernel_id) {
  std::pair<std::string_view, std::string_view> const wanted[] = {
      {"workload", workload},
      {"operation", operation_name(spec)},
      {"kernel_id", kernel_id},
      {"value_dtype", type_name(spec.value_dtype)},
      {"coord_dtype", type_name(spec.coord_dtype)},
      {"math_mode", math_name(spec)}};
  // A row does not say these: they are what the command takes where nothing else is asked for.
  ProblemShape usual = spec;
  usual.set_dtypes(spec.value_dtype);
  if (spec.weight_dtype != usual.weight_dtype || spec.output_dtype != usual.output_dtype ||
      spec.value_border != 0 || !spec.level_start.empty() || spec.tokens != 0) {
    return std::nullopt;
  }
  std::string const input = input_name(spec);
  for (std::size_t row = 0; row < times.row_count(); ++row) {
    bool fits = times.cell(row, "input_mode") == input;
    for (auto const& [column, value] : wanted) fits = fits && times.cell(row, column) == value;
    if (!fits) continue;
    if (times.cell(row, "median_us").empty()) return std::nullopt;
    return MeasuredTime{times.number(row, "median_us"), times.number(row, "q1_us"),
                        times.number(row, "q3_us")};
  }
  return std::nullopt;
}

// ---- Nsight Compute's counters

namespace {

constexpr std::string_view kWavefronts = "l1tex__data_pipe_lsu_wavefronts.sum";
constexpr std::string_view kHitRate = "l1tex__t_sector_hit_rate.pct";
constexpr std::string_view kL2Bytes = "lts__t_bytes.sum";

struct Counter {
  std::string_view name;
  double (*counted)(Counts const&);  // null: see counted_of()
};
constexpr Counter kCounters[] = {
    {kWavefronts, nullptr},
    {"smsp__inst_executed.sum", [](Counts const& c) { return c.instructions; }},
    {"sm__inst_executed.sum", [](Counts const& c) { return c.instructions; }},
    {"smsp__inst_issued.sum", [](Counts const& c) { return c.instructions; }},
    {kHitRate, nullptr},
    {kL2Bytes, nullptr},
    {"dram__bytes.sum", [](Counts const& c) { return c.compulsory_bytes(); }},
    {"dram__bytes_read.sum", [](Counts const& c) { return c.input_bytes + c.value_bytes; }},
};

// The factor of a unit such as Mbyte.
double factor_of(std::string_view unit) {
  constexpr std::string_view kPrefixes = "KMGT";
  double factor = 1;
  if (unit.size() < 2 || kPrefixes.find(unit[0]) == std::string_view::npos) return factor;
  for (std::size_t i = 0; i <= kPrefixes.find(unit[0]); ++i) factor *= 1000;
  return factor;
}

std::optional<double> counted_of(Counter const& counter, Counts const& counts,
                                 GpuRates const& rates, std::optional<double> hit_percent) {
  if (counter.counted != nullptr) {
    double const counted = counter.counted(counts);
    return counted > 0 ? std::optional(counted) : std::nullopt;
  }
  if (counter.name == kWavefronts) return pipe_wavefronts(counts, rates);
  // The places of points decide what misses L1, and with it what L2 has to do.
  if (counter.name != kL2Bytes || !hit_percent) return std::nullopt;
  return counts.input_bytes + counts.output_bytes + counts.copied_bytes +
         counts.gathered_bytes * (1 - *hit_percent / 100);
}

}  // namespace

std::vector<ComparedCounter> compare_with_ncu(std::string const& name, std::string_view csv,
                                              Counts const& counts, GpuRates const& rates) {
  CsvTable const table(name, csv, "ID");
  if (table.has_column("Metric Name")) {
    bad_input("{}: has a line a counter: must be of `ncu --csv --page raw`, a line a launch", name);
  }
  std::vector<ComparedCounter> compared;
  std::optional<std::size_t> units;  // the row that has them
  for (std::size_t row = 0; row < table.row_count(); ++row) {
    if (table.cell(row, "ID").empty()) {
      units = row;
      continue;
    }
    if (!units) {
      bad_input("{}: must be the line of units, whose ID is empty, but its ID is {}",
                table.place(row), table.cell(row, "ID"));
    }
    auto const value = [&](std::string_view column) {
      return table.number(row, column) * factor_of(table.cell(*units, column));
    };
    std::optional<double> hit_percent;
    if (table.has_column(kHitRate)) hit_percent = value(kHitRate);
    for (Counter const& counter : kCounters) {
      if (!table.has_column(counter.name)) continue;
      compared.push_back({table.cell(row, "ID"), std::string(counter.name), value(counter.name),
                          counted_of(counter, counts, rates, hit_percent)});
    }
  }
  if (compared.empty()) {
    std::vector<std::string_view> names;
    for (Counter const& counter : kCounters) names.push_back(counter.name);
    bad_input("{}: has no launch with one of the counters {}", name, join(names, ", "));
  }
  return compared;
}

}  // namespace msda::command
