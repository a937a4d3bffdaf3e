// Tuning on the caller's tensors, and its records as text.

#include "api/guard.h"
#include "api/objects.h"
#include "api/structs.h"
#include "core/cuda.h"
#include "plan/kernel_choice.h"
#include "plan/tune.h"

#include <algorithm>
#include <cmath>

namespace msda::api {
namespace {

void check_tuning_arguments(msda_plan_options const& options, double budget_ms) {
  if (options.mode == MSDA_PLAN_FORCED) {
    invalid(
        "plan_options.mode is {} (MSDA_PLAN_FORCED): must be {} (MSDA_PLAN_HEURISTIC) or {} "
        "(MSDA_PLAN_TUNED), tuning chooses the kernel itself",
        options.mode, MSDA_PLAN_HEURISTIC, MSDA_PLAN_TUNED);
  }
  if (!(std::isfinite(budget_ms) && budget_ms > 0)) {
    invalid("budget_ms is {}: must be a finite number greater than 0", budget_ms);
  }
}

void check_not_capturing(msda_stream stream, Device const& device) {
  if (device.is_cpu() || !cuda::is_capturing(stream)) return;
  invalid(
      "stream is {}: must not be capturing a graph, nor be the default stream beside one that is: "
      "tuning waits for the kernels it times",
      static_cast<void*>(stream));
}

// Else the library's own memory is used, as much as it takes.
bool has_workspace(msda_tensors const& sample) {
  if (sample.workspace != nullptr) return true;
  if (sample.workspace_bytes == 0) return false;
  invalid(
      "tensors.workspace is NULL: must point to {} bytes, which is workspace_bytes, or both be 0 "
      "for the library's own memory",
      sample.workspace_bytes);
}

msda_plan* tune_plan(msda_handle& handle, const msda_problem* problem,
                     msda_plan_options const& options, const msda_tensors* sample,
                     msda_stream stream, double budget_ms) {
  check_plan_options(options, handle.device);
  Problem canonical = canonical_problem(problem, &handle.memory);
  cuda::look_for_driver();
  CallRules(canonical, 0, handle.device).check(sample, stream);
  check_tuning_arguments(options, budget_ms);
  check_process(handle.device, "handle");
  cuda::CurrentDevice const current(handle.device);
  cuda::check_stream(handle.device, stream);
  check_not_capturing(stream, handle.device);
  Device const device =
      handle.device.limited_to(options.sm_count_limit, options.workspace_limit_bytes);
  std::vector<Ranked> kernels = accepting_kernels(canonical, device, options.workspace_limit_bytes);
  bool const brings_workspace = has_workspace(*sample);
  if (brings_workspace) keep_those_that_fit(kernels, sample->workspace_bytes);
  auto const largest = std::ranges::max_element(kernels, {}, &Ranked::workspace_bytes);
  std::size_t const given_bytes = brings_workspace ? largest->workspace_bytes : 0;
  Call const call = CallRules(canonical, given_bytes, device).check(sample, stream);
  PlanPtr plan = new_plan(handle, device, std::move(canonical));
  TrialSetting const setting{plan->problem, plan->device,         call,
                             handle.memory, handle.call_memory(), handle.log};
  Tuned tuned = tune(kernels, setting, budget_ms);
  set_kernel(*plan, kernels[tuned.choice.kernel], std::move(tuned.prepared));
  remember(tuned.choice, kernels, setting, options.workspace_limit_bytes, handle.records);
  return plan.release();
}

// Every problem of a text passes through the caller's checks, and gets the form that a plan's has.
void settle_problem(TuningLine& line) {
  try {
    ProblemCopy& problem = line.key.problem;
    problem = copy_of(canonical_problem(&problem.c, std::pmr::new_delete_resource()));
  } catch (StatusError const& error) {
    fail(error.status(), "text, line {}: {}", line.number, error.what());
  }
}

}  // namespace
}  // namespace msda::api

using namespace msda;
using namespace msda::api;

msda_status msda_plan_tune(msda_handle* handle, const msda_problem* problem,
                           const msda_plan_options* options, const msda_tensors* sample,
                           msda_stream stream, double budget_ms, msda_plan** out) {
  return guard("msda_plan_tune", log_of(handle), [&] {
    required(handle, "handle");
    msda_plan*& result = required(out, "out");
    result = tune_plan(*handle, problem, read_optional_struct(options, "msda_plan_options"), sample,
                       stream, budget_ms);
  });
}

msda_status msda_tuning_export(const msda_handle* handle, char* text, size_t* text_size) {
  return guard("msda_tuning_export", log_of(handle), [&] {
    required(handle, "handle");
    required(text_size, "text_size");
    std::string const records = handle->records.text();
    copy_out(records.c_str(), records.size() + 1, text, text_size, "text");
  });
}

msda_status msda_tuning_import(msda_handle* handle, const char* text, size_t text_size) {
  return guard("msda_tuning_import", log_of(handle), [&] {
    required(handle, "handle");
    required(text, "text");
    std::vector<TuningLine> lines = parse_tuning_text({text, text_size});
    for (TuningLine& line : lines) settle_problem(line);
    handle->records.add(lines);
  });
}
