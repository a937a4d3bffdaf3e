// Tuning and its records through the C API.
#pragma once

#include "support/runner.h"

#include <string>

namespace msda::test {

msda_plan_options plan_options(msda_plan_mode mode = MSDA_PLAN_HEURISTIC);
PlanResult make_plan(TestHandle const& handle, ProblemShape const& shape,
                     msda_plan_options const& options);

// A budget that no clock uses up: the tuner stops after some hundred runs by itself.
inline constexpr double kEndlessMs = 1e12;

// A failure must leave `out` alone: checked here.
struct TuneRequest {
  double budget_ms = kEndlessMs;
  msda_plan_options options = plan_options();
  msda_stream stream = nullptr;
};
PlanResult tune_plan(TestHandle const& handle, ProblemShape const& shape,
                     msda_tensors const& sample, TuneRequest const& request = {});

std::string export_records(TestHandle const& handle);

struct Answer {
  msda_status status = MSDA_SUCCESS;
  std::string message;  // of the failure
};
// From memory that ends where the text ends.
Answer import_records(TestHandle const& handle, std::string const& text);

}  // namespace msda::test
