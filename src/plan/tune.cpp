#include "plan/tune.h"

#include "core/status.h"

namespace msda {

void keep_those_that_fit(std::vector<Ranked>& kernels, std::size_t workspace_bytes) {
  Ranked const& first = kernels.front();
  if (first.workspace_bytes > workspace_bytes) {
    fail(MSDA_ERROR_BUFFER_TOO_SMALL,
         "tensors.workspace_bytes is {}: must be at least {}, which {} needs, the kernel that all "
         "others are compared with",
         workspace_bytes, first.workspace_bytes, first.kernel.variant->id);
  }
  std::erase_if(kernels, [workspace_bytes](Ranked const& kernel) {
    return kernel.workspace_bytes > workspace_bytes;
  });
}

Tuned tune(std::vector<Ranked> const& kernels, TrialSetting const& setting, double budget_ms) {
  std::vector<double> predicted_us;
  for (Ranked const& kernel : kernels) predicted_us.push_back(kernel.predicted_us);
  KernelTrials trials(kernels, setting);
  Choice const choice = choose_by_time(predicted_us, budget_ms, trials);
  return {choice, trials.take_prepared(choice.kernel)};
}

void remember(Choice const& choice, std::vector<Ranked> const& kernels, TrialSetting const& setting,
              std::size_t workspace_limit_bytes, TuningRecords& records) {
  const char* const heuristic_id = kernels.front().kernel.variant->id;
  const char* const kernel_id = kernels[choice.kernel].kernel.variant->id;
  if (!choice.is_measured) {
    setting.log.write(MSDA_LOG_WARN,
                      "tune: the budget was too short to compare kernels: {}, the heuristic's "
                      "choice, and no record",
                      heuristic_id);
    return;
  }
  TuningLine line;
  line.key = tuning_key(setting.problem, setting.device, workspace_limit_bytes);
  line.record = {kernel_id, choice.median_us, heuristic_id, choice.heuristic_us};
  records.add({line});
  setting.log.write(MSDA_LOG_INFO,
                    "tune: {} takes {:.1f} us, the heuristic's choice {} {:.1f} us; {} of {} "
                    "kernels tried",
                    kernel_id, choice.median_us, heuristic_id, choice.heuristic_us,
                    choice.tried_count, kernels.size());
}

}  // namespace msda
