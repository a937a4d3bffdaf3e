#include "command/report/measured_times.h"

#include "command/files/element_type.h"
#include "command/files/input_error.h"
#include "command/report/report_parts.h"

#include <utility>

namespace msda::command {

MeasuredTimes::MeasuredTimes(std::string const& name, std::string_view csv)
    : table_(name, csv, "workload") {
  for (const char* const column : {"operation", "kernel_id", "value_dtype", "coord_dtype",
                                   "math_mode", "input_mode", "median_us", "q1_us", "q3_us"}) {
    if (!table_.has_column(column)) {
      bad_input("{}: has no column {}: must be a CSV of `msda bench`", name, column);
    }
  }
}

std::optional<MeasuredTime> MeasuredTimes::find(std::string_view workload, ProblemShape const& spec,
                                                std::string_view kernel_id) const {
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
  for (std::size_t row = 0; row < table_.row_count(); ++row) {
    bool fits = table_.cell(row, "input_mode") == input;
    for (auto const& [column, value] : wanted) fits = fits && table_.cell(row, column) == value;
    if (!fits) continue;
    if (table_.cell(row, "median_us").empty()) return std::nullopt;
    return MeasuredTime{table_.number(row, "median_us"), table_.number(row, "q1_us"),
                        table_.number(row, "q3_us")};
  }
  return std::nullopt;
}

}  // namespace msda::command
