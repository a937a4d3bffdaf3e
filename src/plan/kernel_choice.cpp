#include "plan/kernel_choice.h"

#include "core/join.h"
#include "core/status.h"

#include <fmt/core.h>

#include <optional>
#include <string>

namespace msda {
namespace {

// Ids that could have been meant where no kernel has this one: it without a revision or of another
// one, else any.
std::vector<std::string_view> known_ids(std::string_view id) {
  auto const without_revision = [](std::string_view x) { return x.substr(0, x.find('@')); };
  std::vector<std::string_view> ids;
  for (KernelRef const& kernel : all_kernels()) {
    std::string_view const known = kernel.variant->id;
    if (without_revision(known) == without_revision(id)) return {known};
    ids.push_back(known);
  }
  return ids;
}

Ranked forced_kernel(KernelWish const& wish, Problem const& problem, Device const& device) {
  KernelRef const kernel = find_kernel(wish.kernel_id);
  if (kernel.variant == nullptr) {
    auto const ids = known_ids(wish.kernel_id);
    invalid("plan_options.kernel_id is '{}': must be {}{}", wish.kernel_id,
            ids.size() > 1 ? "one of " : "", join(ids, ", "));
  }
  Ranked const choice = judge(kernel, problem, device, wish.workspace_limit_bytes);
  if (choice.rejected == Reason::kNone) return choice;
  fail(MSDA_ERROR_UNSUPPORTED, "plan_options.kernel_id is '{}': the kernel {}", wish.kernel_id,
       why_rejected(choice));
}

// The kernel of the problem's record, if there is such a record and the kernel still is there and
// takes the problem.
std::optional<Ranked> tuned_kernel(TuningRecords const& records, Problem const& problem,
                                   Device const& device, std::size_t workspace_limit_bytes,
                                   Log const& log) {
  std::optional<std::string> const id =
      records.find_kernel_id(tuning_key(problem, device, workspace_limit_bytes));
  if (!id) {
    log.write(MSDA_LOG_INFO, "plan: no tuning record is for this problem");
    return std::nullopt;
  }
  KernelRef const kernel = find_kernel(*id);
  std::string why_not = "is not in this library";
  if (kernel.variant != nullptr) {
    Ranked const choice = judge(kernel, problem, device, workspace_limit_bytes);
    if (choice.rejected == Reason::kNone) return choice;
    why_not = why_rejected(choice);
  }
  log.write(MSDA_LOG_WARN, "plan: the tuning record's kernel {} {}", *id, why_not);
  return std::nullopt;
}

}  // namespace

Ranked choose_kernel(KernelWish const& wish, Problem const& problem, Device const& device,
                     TuningRecords const& records, Log const& log) {
  if (wish.mode == MSDA_PLAN_FORCED) return forced_kernel(wish, problem, device);
  std::size_t const limit = wish.workspace_limit_bytes;
  if (wish.mode == MSDA_PLAN_TUNED) {
    if (auto const tuned = tuned_kernel(records, problem, device, limit, log)) return *tuned;
  }
  return accepting_kernels(problem, device, limit).front();
}

std::vector<Ranked> accepting_kernels(Problem const& problem, Device const& device,
                                      std::size_t workspace_limit_bytes) {
  std::vector<Ranked> ranking = rank_kernels(problem, device, workspace_limit_bytes);
  if (ranking.empty() || !ranking.front().may_be_chosen) {
    std::string reasons;
    for (Ranked const& entry : ranking) {
      reasons += fmt::format("; {} {}", entry.kernel.variant->id,
                             entry.rejected == Reason::kNone
                                 ? "is only chosen for scattered points or by tuning"
                                 : why_rejected(entry));
    }
    fail(MSDA_ERROR_UNSUPPORTED, "no kernel takes this problem{}", reasons);
  }
  std::erase_if(ranking, [](Ranked const& entry) { return entry.rejected != Reason::kNone; });
  return ranking;
}

KernelRef find_stored_kernel(std::string_view id) {
  KernelRef const kernel = find_kernel(id);
  if (kernel.variant != nullptr) return kernel;
  fail(MSDA_ERROR_STALE_PLAN, "blob is for kernel '{}': this library has {}", id,
       join(known_ids(id), ", "));
}

Ranked accept_stored_kernel(KernelRef kernel, Problem const& problem, Device const& device) {
  Ranked const choice = judge(kernel, problem, device, 0);
  if (choice.rejected == Reason::kNone) return choice;
  fail(MSDA_ERROR_STALE_PLAN, "blob is for kernel '{}': here the kernel {}", kernel.variant->id,
       why_rejected(choice));
}

}  // namespace msda
