#include "command/report/tune_report.h"

#include "command/files/element_type.h"
#include "command/report/report_parts.h"

#include <fmt/core.h>

namespace msda::command {

std::string tune_table(std::vector<TuneRow> const& rows, TuneSettings const& settings) {
  std::vector<std::vector<std::string>> cells = {{"workload", "value", "coord", "predicted fastest",
                                                  "tuned", "before", "after", "speedup", "record"}};
  for (TuneRow const& row : rows) {
    cells.push_back({row.workload, std::string(type_name(row.spec.value_dtype)),
                     std::string(type_name(row.spec.coord_dtype)), row.heuristic_id, row.tuned_id,
                     time_text(row.before.median()), time_text(row.after.median()),
                     fmt::format("{:.2f}x", row.speedup()), row.is_recorded ? "yes" : "no"});
  }
  return fmt::format("{}; {:g} ms to choose; medians\n{}", machine_text(settings.threads),
                     settings.budget_ms, table_text(cells, 5));
}

std::string tune_json(std::vector<TuneRow> const& rows, TuneSettings const& settings) {
  Json json = report_json({{"threads", settings.threads},
                           {"seed", settings.seed},
                           {"budget_ms", settings.budget_ms},
                           {"warmup", settings.warmup},
                           {"flush_bytes", settings.flush_bytes}});
  for (TuneRow const& row : rows) {
    json["results"].push_back(
        {{"workload", row.workload},
         {"problem", problem_json(row.spec)},
         {"before", {{"kernel_id", row.heuristic_id}, {"time_us", timing_json(row.before)}}},
         {"after", {{"kernel_id", row.tuned_id}, {"time_us", timing_json(row.after)}}},
         {"speedup", row.speedup()},
         {"recorded", row.is_recorded}});
  }
  return json.dump(2) + "\n";
}

std::string tune_csv(std::vector<TuneRow> const& rows) {
  std::string text =
      "workload,operation,value_dtype,coord_dtype,math_mode,input_mode,before_id,before_us,after_"
      "id,"
      "after_us,speedup,recorded\n";
  for (TuneRow const& row : rows) {
    text += fmt::format("{},{},{},{},{},{},{},{:.1f},{},{:.1f},{:.3f},{}\n", row.workload,
                        operation_name(row.spec), type_name(row.spec.value_dtype),
                        type_name(row.spec.coord_dtype), math_name(row.spec), input_name(row.spec),
                        row.heuristic_id, row.before.median(), row.tuned_id, row.after.median(),
                        row.speedup(), row.is_recorded ? 1 : 0);
  }
  return text;
}

}  // namespace msda::command
