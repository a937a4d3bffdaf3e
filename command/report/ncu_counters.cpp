#include "command/report/ncu_counters.h"

#include "command/files/csv_table.h"
#include "command/files/input_error.h"
#include "command/report/bounds.h"

#include <cstddef>

namespace msda::command {

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

std::optional<double> ComparedCounter::ratio() const {
  return counted ? std::optional(measured / *counted) : std::nullopt;
}

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
    std::string names;
    for (Counter const& counter : kCounters)
      names += (names.empty() ? "" : ", ") + std::string(counter.name);
    bad_input("{}: has no launch with one of the counters {}", name, names);
  }
  return compared;
}

}  // namespace msda::command
