#include "command/report/bench_report.h"

#include "command/report/report_parts.h"
#include "core/cpu_model.h"
#include "core/join.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace msda::command {

namespace {

bool is_checked(BenchRow const& row) { return row.check_mode != CheckMode::kNone; }

// Gradients of a sample are those of a smaller problem: no element of the row's own was compared.
bool is_reduced(BenchRow const& row) {
  return row.check_mode == CheckMode::kSample && row.spec.backward() &&
         row.accuracy.value_count != row.element_count;
}

// How many elements were compared: "all of 76.8 k", "32.8 k of 23.7 M".
std::string compared_text(BenchRow const& row) {
  if (!is_checked(row)) return "none";
  if (is_reduced(row)) return "smaller problem";
  auto const text = [](std::int64_t count) { return count_text(static_cast<double>(count)); };
  bool const all = row.accuracy.value_count == row.element_count;
  return fmt::format("{} of {}", all ? "all" : text(row.accuracy.value_count),
                     text(row.element_count));
}

std::string_view verdict(BenchRow const& row) {
  if (!row.accuracy.passed()) return "FAILED";
  return is_checked(row) ? "ok" : "not checked";
}

Json check_json(BenchRow const& row) {
  if (!is_checked(row))
    return {{"passed", nullptr}, {"elements", 0}, {"all_elements", row.element_count}};
  Json json = {{"passed", row.accuracy.passed()},
               {"reference", row.reference_id},
               {"elements", row.accuracy.value_count},
               {"all_elements", row.element_count},
               {"of_smaller_problem", is_reduced(row)},
               {"max_error", row.accuracy.max_error},
               {"max_share_of_bound", row.accuracy.max_bound_share}};
  if (!row.accuracy.passed()) json["wrong"] = wrong_text(row.accuracy);
  return json;
}

// How many times as fast a row is as the first of its workload.
std::string speed_text(std::vector<BenchRow> const& rows, BenchRow const& row) {
  BenchRow const& first = *std::ranges::find(rows, row.workload, &BenchRow::workload);
  if (!first.is_timed() || !row.is_timed()) return "-";
  return fmt::format("{:.2f}", first.timing.median() / row.timing.median());
}

Json row_json(BenchRow const& row) {
  Work const work = work_of(row.spec);
  Json json = {{"workload", row.workload},
               {"threads", row.threads},
               {"kernel_id", row.kernel_id},
               {"problem", problem_json(row.spec)},
               {"workspace_bytes", row.workspace_bytes},
               {"predicted_us", row.predicted_us},
               {"points", work.points},
               {"gathered_bytes", work.gathered_bytes},
               {"tensor_bytes", work.tensor_bytes},
               {"check", check_json(row)}};
  if (row.is_timed()) {
    json["time_us"] = timing_json(row.timing);
  }
  return json;
}

}  // namespace

std::string BenchSettings::machine() const {
  if (threads.size() == 1) return machine_text(threads[0]);
  return fmt::format("{}, threads {}", cpu_model(), join(threads, ", "));
}

std::string bench_table(std::vector<BenchRow> const& rows, BenchSettings const& settings) {
  bool const has_threads = settings.threads.size() > 1;
  std::set<std::string> workloads;
  for (BenchRow const& row : rows) workloads.insert(row.workload);
  bool const is_comparison = workloads.size() < rows.size();
  std::vector<std::string> head = {"workload", "kernel", "value", "coord"};
  if (has_threads) head.insert(head.begin() + 2, "threads");
  std::size_t const text_columns = head.size();
  if (is_comparison) head.emplace_back("times as fast");
  head.insert(head.end(), {"median", "min", "max", "runs", "points/s", "gathered/s", "max error",
                           "of bound", "compared", "check"});
  Cells cells = {head};
  for (BenchRow const& row : rows) {
    std::vector<std::string> line = {row.workload, row.kernel_id,
                                     std::string(type_name(row.spec.value_dtype)),
                                     std::string(type_name(row.spec.coord_dtype))};
    if (has_threads) line.insert(line.begin() + 2, std::to_string(row.threads));
    if (is_comparison) line.push_back(speed_text(rows, row));
    if (row.is_timed()) {
      Work const work = work_of(row.spec);
      double const seconds = row.timing.median() * 1e-6;
      line.insert(line.end(),
                  {time_text(row.timing.median()), time_text(row.timing.min()),
                   time_text(row.timing.max()), std::to_string(row.timing.microseconds.size()),
                   count_text(work.points / seconds), bytes_text(work.gathered_bytes / seconds)});
    } else {
      line.insert(line.end(), 6, "-");
    }
    line.insert(line.end(),
                {is_checked(row) ? fmt::format("{:.2e}", row.accuracy.max_error) : "-",
                 is_checked(row) ? fmt::format("{:.3f}", row.accuracy.max_bound_share) : "-",
                 compared_text(row), std::string(verdict(row))});
    cells.push_back(line);
  }
  return fmt::format("{}; caches flushed by {} between runs\n{}", settings.machine(),
                     bytes_text(static_cast<double>(settings.flush_bytes)),
                     table_text(cells, text_columns));
}

std::string bench_json(std::vector<BenchRow> const& rows, BenchSettings const& settings) {
  Json const threads =
      settings.threads.size() == 1 ? Json(settings.threads[0]) : Json(settings.threads);
  Json json = report_json({{"threads", threads},
                           {"seed", settings.seed},
                           {"warmup", settings.warmup},
                           {"flush_bytes", settings.flush_bytes}});
  for (BenchRow const& row : rows) json["results"].push_back(row_json(row));
  return json.dump(2) + "\n";
}

std::string bench_csv(std::vector<BenchRow> const& rows) {
  std::string text =
      "workload,operation,kernel_id,value_dtype,coord_dtype,math_mode,input_mode,median_us,q1_us,"
      "q3_us,max_error,error_share,compared,elements\n";
  for (BenchRow const& row : rows) {
    std::string const times =
        row.is_timed() ? fmt::format("{:.1f},{:.1f},{:.1f}", row.timing.median(),
                                     row.timing.quantile(0.25), row.timing.quantile(0.75))
                       : std::string(",,");
    std::string const errors =
        is_checked(row)
            ? fmt::format("{:.3e},{:.3e}", row.accuracy.max_error, row.accuracy.max_bound_share)
            : std::string(",");
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{}\n", row.workload, operation_name(row.spec),
                    row.kernel_id, type_name(row.spec.value_dtype), type_name(row.spec.coord_dtype),
                    math_name(row.spec), input_name(row.spec), times, errors,
                    is_reduced(row) ? 0 : row.accuracy.value_count, row.element_count);
  }
  return text;
}

}  // namespace msda::command
