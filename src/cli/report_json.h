// Parts that the machine-readable reports share.
#pragma once

#include "lab/plan_runner.h"
#include "lab/problem_shape.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace msda::cli {

using Json = nlohmann::ordered_json;

std::string_view operation_name(lab::ProblemShape const& spec);  // "forward"
std::string input_name(lab::ProblemShape const& spec);           // "sampled", "fused2", "fused4"
std::string_view math_name(lab::ProblemShape const& spec);       // "accurate"
std::string machine_text(unsigned threads);                      // "AMD EPYC, 2 threads"

// The beginning of a report; its rows go to "results".
Json report_json(Json settings);
Json problem_json(lab::ProblemShape const& spec);
Json timing_json(lab::Timing const& timing);

}  // namespace msda::cli
