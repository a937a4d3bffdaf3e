// Tuning on the caller's tensors, and its records as text.

#include "api/guard.h"
#include "api/objects.h"
#include "api/structs.h"
#include "core/cuda.h"
#include "plan/kernel_trials.h"
#include "plan/tuner.h"

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

// Leaves out the kernels that need more workspace than the sample has. The heuristic's choice is
// never left out: what it was measured against would be missing.
void keep_those_that_fit(std::vector<Ranked>& kernels, msda_tensors const& sample) {
  if (sample.workspace == nullptr) {
    if (sample.workspace_bytes == 0) return;  // the library's own memory, as much as it takes
    invalid(
        "tensors.workspace is NULL: must point to {} bytes, which is workspace_bytes, or both "
        "be 0 for the library's own memory",
        sample.workspace_bytes);
  }
  Ranked const& first = kernels.front();
  if (first.workspace_bytes > sample.workspace_bytes) {
    fail(MSDA_ERROR_BUFFER_TOO_SMALL,
         "tensors.workspace_bytes is {}: must be at least {}, which {} needs, the kernel that all "
         "others are compared with",
         sample.workspace_bytes, first.workspace_bytes, first.kernel.variant->id);
  }
  std::erase_if(kernels, [&sample](Ranked const& kernel) {
    return kernel.workspace_bytes > sample.workspace_bytes;
  });
}

std::size_t largest_workspace(std::vector<Ranked> const& kernels) {
  std::size_t bytes = 0;
  for (Ranked const& kernel : kernels) bytes = std::max(bytes, kernel.workspace_bytes);
  return bytes;
}

Choice try_kernels(msda_plan& plan, std::vector<Ranked> const& kernels, Call const& call,
                   double budget_ms) {
  std::vector<double> predicted_us;
  for (Ranked const& kernel : kernels) predicted_us.push_back(kernel.predicted_us);
  msda_handle& handle = plan.handle;
  KernelTrials trials(
      kernels, {plan.problem, plan.device, call, handle.memory, handle.call_memory(), handle.log});
  Choice const choice = choose_by_time(predicted_us, budget_ms, trials);
  set_kernel(plan, kernels[choice.kernel], trials.take_prepared(choice.kernel));
  return choice;
}

void remember(msda_plan const& plan, std::vector<Ranked> const& kernels, Choice const& choice,
              std::size_t workspace_limit_bytes) {
  const char* const heuristic_id = kernels.front().kernel.variant->id;
  const char* const kernel_id = plan.kernel.variant->id;
  Log const& log = plan.handle.log;
  if (!choice.is_measured) {
    log.write(MSDA_LOG_WARN,
              "tune: the budget was too short to compare kernels: {}, the heuristic's choice, and "
              "no record",
              heuristic_id);
    return;
  }
  TuningLine line;
  line.key = tuning_key(plan.problem, plan.device, workspace_limit_bytes);
  line.record = {kernel_id, choice.median_us, heuristic_id, choice.heuristic_us};
  plan.handle.records.add({line});
  log.write(MSDA_LOG_INFO,
            "tune: {} takes {:.1f} us, the heuristic's choice {} {:.1f} us; {} of {} kernels tried",
            kernel_id, choice.median_us, heuristic_id, choice.heuristic_us, choice.tried_count,
            kernels.size());
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
  check_not_capturing(stream, handle.device);
  Device const device = handle.device.limited_to(options.sm_count_limit);
  std::vector<Ranked> kernels = accepting_kernels(canonical, device, options.workspace_limit_bytes);
  keep_those_that_fit(kernels, *sample);
  std::size_t const given_bytes = sample->workspace == nullptr ? 0 : largest_workspace(kernels);
  Call const call = CallRules(canonical, given_bytes, device).check(sample, stream);
  PlanPtr plan = new_plan(handle, device, std::move(canonical));
  Choice const choice = try_kernels(*plan, kernels, call, budget_ms);
  remember(*plan, kernels, choice, options.workspace_limit_bytes);
  return plan.release();
}

// Every problem of a text passes through the caller's checks, and gets the form that a plan's has.
void settle_problem(TuningLine& line) {
  try {
    msda_problem const problem = line.key.problem.view();
    line.key.problem = stored_form(canonical_problem(&problem, std::pmr::new_delete_resource()));
  } catch (StatusError const& error) {
    fail(error.status(), "text, line {}: {}", line.number, error.what());
  }
}

}  // namespace

std::optional<Ranked> tuned_choice(msda_handle const& handle, Problem const& problem,
                                   Device const& device, std::size_t workspace_limit_bytes) {
  std::optional<std::string> const id =
      handle.records.find_kernel_id(tuning_key(problem, device, workspace_limit_bytes));
  if (!id) {
    handle.log.write(MSDA_LOG_INFO, "plan: no tuning record is for this problem");
    return std::nullopt;
  }
  KernelRef const kernel = find_kernel(*id);
  Ranked const choice =
      kernel.variant == nullptr ? Ranked{} : judge(kernel, problem, device, workspace_limit_bytes);
  if (kernel.variant != nullptr && choice.rejected == Reason::kNone) return choice;
  handle.log.write(
      MSDA_LOG_WARN, "plan: the tuning record's kernel {} {}", *id,
      kernel.variant == nullptr ? "is not in this library" : reason_text(choice.rejected));
  return std::nullopt;
}

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
