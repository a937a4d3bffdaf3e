#include "plan/tune.h"

#include "core/status.h"

#include <exception>

namespace msda {

KernelTrials::KernelTrials(std::span<const Ranked> kernels, TrialSetting const& setting)
    : kernels_(kernels), setting_(setting), prepared_(kernels.size()) {
  timer_.drain();  // what the caller gave the stream before is none of the budget's
  start_us_ = setting_.device.clock();
}

KernelTrials::~KernelTrials() { free_workspace(); }

double KernelTrials::elapsed_ms() { return 1e-3 * (setting_.device.clock() - start_us_); }

std::optional<double> KernelTrials::run_us(std::size_t kernel, int repeats) {
  if (kernel == 0) return time_us(kernel, repeats);
  try {
    return time_us(kernel, repeats);
  } catch (std::exception const& error) {
    cuda::forget_error();
    setting_.log.write(MSDA_LOG_WARN, "tune: {} is left out: {}",
                       kernels_[kernel].kernel.variant->id, error.what());
    return std::nullopt;
  }
}

// The library's own grows to what the hungriest kernel so far needs.
void KernelTrials::provide_workspace(std::size_t bytes) {
  if (!owns_workspace_ || bytes <= call_.workspace_bytes) return;
  free_workspace();
  call_.workspace = static_cast<std::byte*>(setting_.scratch.allocate(bytes, Arena::kAlignment));
  call_.workspace_bytes = bytes;
}

void KernelTrials::free_workspace() {
  if (!owns_workspace_ || call_.workspace == nullptr) return;
  setting_.scratch.deallocate(call_.workspace, call_.workspace_bytes, Arena::kAlignment);
  call_.workspace = nullptr;
  call_.workspace_bytes = 0;
}

double KernelTrials::time_us(std::size_t kernel, int repeats) {
  auto const& [family, variant] = kernels_[kernel].kernel;
  std::optional<PreparedPtr>& prepared = prepared_[kernel];
  if (!prepared) {
    prepared = family->code->prepare(*variant, setting_.problem, setting_.device, &setting_.memory);
  }
  provide_workspace(kernels_[kernel].workspace_bytes);
  Launch const launch{setting_.problem, setting_.device, prepared->get(), call_};
  timer_.start();
  try {
    for (int i = 0; i < repeats; ++i) family->code->launch(*variant, launch);
    return timer_.stop_us() / repeats;
  } catch (...) {
    timer_.drain();  // a part of the work may be running on memory that is about to be freed
    throw;
  }
}

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
