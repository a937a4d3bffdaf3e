#include "cli/bench_report.h"

#include "cli/machine.h"
#include "cli/report_text.h"
#include "cli/svg_plot.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <set>

namespace msda::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string_view operation_name(ProblemSpec const& spec) {
  return spec.backward() ? "backward" : "forward";
}

std::string input_name(ProblemSpec const& spec) {
  return spec.fused() ? fmt::format("fused{}", spec.reference_dim) : "sampled";
}

std::string_view math_name(ProblemSpec const& spec) {
  return spec.math_mode == MSDA_MATH_FAST ? "fast" : "accurate";
}

bool is_timed(BenchRow const& row) { return !row.timing.microseconds.empty(); }

std::string machine_text(BenchSettings const& settings) {
  return fmt::format("{}, {} thread{}", cpu_name(), settings.threads,
                     settings.threads == 1 ? "" : "s");
}

Json problem_json(ProblemSpec const& spec) {
  Json levels = Json::array();
  for (std::size_t l = 0; l < spec.point_counts.size(); ++l) {
    levels.push_back({spec.level_hw[2 * l], spec.level_hw[2 * l + 1]});
  }
  return {{"operation", operation_name(spec)},
          {"input_mode", input_name(spec)},
          {"math_mode", math_name(spec)},
          {"batch", spec.batch},
          {"queries", spec.query_count},
          {"heads", spec.head_count},
          {"channels", spec.head_dim},
          {"levels", levels},
          {"points", spec.point_counts},
          {"value_border", spec.value_border},
          {"value_dtype", type_name(spec.value_dtype)},
          {"coord_dtype", type_name(spec.coord_dtype)},
          {"weight_dtype", type_name(spec.weight_dtype)},
          {"output_dtype", type_name(spec.output_dtype)}};
}

Json row_json(BenchRow const& row) {
  Work const work = work_of(row.spec);
  Json json = {{"workload", row.workload},
               {"kernel_id", row.kernel_id},
               {"problem", problem_json(row.spec)},
               {"workspace_bytes", row.workspace_bytes},
               {"predicted_us", row.predicted_us},
               {"points", work.points},
               {"gathered_bytes", work.gathered_bytes},
               {"tensor_bytes", work.tensor_bytes},
               {"check",
                {{"passed", row.accuracy.passed()},
                 {"elements", row.accuracy.value_count},
                 {"max_error", row.accuracy.max_error},
                 {"max_share_of_bound", row.accuracy.max_bound_share}}}};
  if (is_timed(row)) {
    json["time_us"] = {{"median", row.timing.median()},
                       {"min", row.timing.min()},
                       {"max", row.timing.max()},
                       {"runs", row.timing.microseconds}};
  }
  return json;
}

}  // namespace

std::string bench_table(std::vector<BenchRow> const& rows, BenchSettings const& settings) {
  std::vector<std::vector<std::string>> cells = {{"workload", "kernel", "value", "coord", "median",
                                                  "min", "max", "runs", "points/s", "gathered/s",
                                                  "max error", "of bound", "check"}};
  for (BenchRow const& row : rows) {
    std::vector<std::string> line = {row.workload, row.kernel_id,
                                     std::string(type_name(row.spec.value_dtype)),
                                     std::string(type_name(row.spec.coord_dtype))};
    if (is_timed(row)) {
      Work const work = work_of(row.spec);
      double const seconds = row.timing.median() * 1e-6;
      line.insert(line.end(),
                  {time_text(row.timing.median()), time_text(row.timing.min()),
                   time_text(row.timing.max()), std::to_string(row.timing.microseconds.size()),
                   count_text(work.points / seconds), bytes_text(work.gathered_bytes / seconds)});
    } else {
      line.insert(line.end(), 6, "-");
    }
    line.insert(line.end(), {fmt::format("{:.2e}", row.accuracy.max_error),
                             fmt::format("{:.2f}", row.accuracy.max_bound_share),
                             row.accuracy.passed() ? "ok" : "FAILED"});
    cells.push_back(line);
  }
  return fmt::format("{}; caches flushed by {} between runs\n{}", machine_text(settings),
                     bytes_text(static_cast<double>(settings.flush_bytes)), table_text(cells, 4));
}

std::string bench_json(std::vector<BenchRow> const& rows, BenchSettings const& settings) {
  Json json = {{"build", msda_build_info()},
               {"machine", {{"cpu", cpu_name()}, {"hardware_threads", hardware_threads()}}},
               {"settings",
                {{"threads", settings.threads},
                 {"seed", settings.seed},
                 {"warmup", settings.warmup},
                 {"flush_bytes", settings.flush_bytes}}},
               {"results", Json::array()}};
  for (BenchRow const& row : rows) json["results"].push_back(row_json(row));
  return json.dump(2) + "\n";
}

std::string bench_csv(std::vector<BenchRow> const& rows) {
  std::string text =
      "workload,operation,kernel_id,value_dtype,coord_dtype,math_mode,input_mode,median_us,spread_"
      "us,"
      "max_error\n";
  for (BenchRow const& row : rows) {
    std::string const times =
        is_timed(row) ? fmt::format("{:.1f},{:.1f}", row.timing.median(), row.timing.spread())
                      : std::string(",");
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{:.3e}\n", row.workload, operation_name(row.spec),
                    row.kernel_id, type_name(row.spec.value_dtype), type_name(row.spec.coord_dtype),
                    math_name(row.spec), input_name(row.spec), times, row.accuracy.max_error);
  }
  return text;
}

std::string bench_plot(std::vector<BenchRow> const& rows, BenchSettings const& settings) {
  std::vector<PlotBar> bars;
  std::set<std::string_view> operations;
  for (BenchRow const& row : rows) {
    if (!is_timed(row)) continue;
    operations.insert(operation_name(row.spec));
    bars.push_back({row.workload,
                    fmt::format("{}, {}", row.kernel_id, type_name(row.spec.value_dtype)),
                    row.timing.min() * 1e-3, row.timing.median() * 1e-3, row.timing.max() * 1e-3,
                    time_text(row.timing.median())});
  }
  std::string const operation = operations.empty() ? "" : fmt::format(" {}", *operations.begin());
  return svg_bars(fmt::format("msda{} - {}", operation, machine_text(settings)),
                  "milliseconds: median, with the fastest and the slowest run", bars);
}

}  // namespace msda::cli
