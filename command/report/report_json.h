// Parts that the machine-readable reports share.
#pragma once

#include "command/measure/plan_runner.h"
#include "command/problem/problem_shape.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace msda::command {

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
