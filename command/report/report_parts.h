// Parts that the reports share: numbers and problems as people read them, and as JSON.
#pragma once

#include "command/check/accuracy_check.h"
#include "command/measure/plan_runner.h"
#include "command/problem/problem_shape.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace msda::command {

std::string version_text();                  // of the library: "0.1.0"
std::string time_text(double microseconds);  // "812.3 us", "4.81 ms", "2.30 s"
// With two digits, which is what a prediction is worth: "810 us".
std::string rough_time_text(double microseconds);
std::string bytes_text(double bytes);  // "6.3 MB"
std::string count_text(double count);  // "2.8 M"

std::string sizes_text(
    ProblemShape const& spec);  // "forward sampled  B 2  Q 24  M 8  D 32  levels ..."
std::string types_text(ProblemShape const& spec);  // "value f16  coord f32  weight f32  output f16"
std::string accuracy_text(Accuracy const& accuracy);
// "output[0,7,3,5] is 1, exact 0.5: off by 0.5, allowed 1e-05; wrong elements: 3"
std::string wrong_text(Accuracy const& accuracy);

// The work of a call: points, bytes fetched for their corners, and bytes of the tensors.
struct Work {
  double points = 0;
  double gathered_bytes = 0;
  double tensor_bytes = 0;
};
Work work_of(ProblemShape const& spec);

using Cells = std::vector<std::vector<std::string>>;  // of a table, row by row
// Columns as wide as their widest cell; the first `left_columns` are aligned to the left.
std::string table_text(Cells const& rows, std::size_t left_columns);

using Json = nlohmann::ordered_json;

std::string_view operation_name(ProblemShape const& spec);  // "forward"
std::string input_name(ProblemShape const& spec);           // "sampled", "fused2", "fused4"
std::string_view math_name(ProblemShape const& spec);       // "accurate"
std::string machine_text(unsigned threads);                 // "AMD EPYC, 2 threads"

// The beginning of a report; its rows go to "results".
Json report_json(Json settings);
Json problem_json(ProblemShape const& spec);
Json timing_json(Timing const& timing);

}  // namespace msda::command
