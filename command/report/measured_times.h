// Times of kernels from a CSV of `msda bench`.
#pragma once

#include "command/files/csv_table.h"
#include "command/problem/problem_shape.h"

#include <optional>
#include <string>
#include <string_view>

namespace msda::command {

struct MeasuredTime {
  double median_us = 0;
  double q1_us = 0;
  double q3_us = 0;
};

class MeasuredTimes {
 public:
  // `name` stands for the text in messages.
  MeasuredTimes(std::string const& name, std::string_view csv);

  // The time of the first row that fits; none where there is no such row, or it was not timed.
  std::optional<MeasuredTime> find(std::string_view workload, ProblemShape const& spec,
                                   std::string_view kernel_id) const;

 private:
  CsvTable table_;
};

}  // namespace msda::command
