#include "plan/selector.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <iterator>

namespace msda {
namespace {

std::string_view when_chosen(Ranked const& entry) {
  Variant const& variant = *entry.kernel.variant;
  if (entry.may_be_chosen) return "";
  if (variant.last_resort) return ", only chosen where no other kernel takes the problem";
  if (variant.unproven) return ", only chosen by tuning";
  return variant.for_local_points ? ", only chosen for local points or by tuning"
                                  : ", only chosen for scattered points or by tuning";
}

// A last resort may be chosen only where nothing else may.
void settle_last_resorts(std::span<Ranked> accepting) {
  auto const is_last_resort = [](Ranked const& r) { return r.kernel.variant->last_resort; };
  bool const has_choice = std::ranges::any_of(
      accepting, [&](Ranked const& r) { return r.may_be_chosen && !is_last_resort(r); });
  for (Ranked& entry : accepting) {
    entry.may_be_chosen = entry.may_be_chosen && !(has_choice && is_last_resort(entry));
  }
}

}  // namespace

Ranked judge(KernelRef kernel, Problem const& problem, Device const& any_device,
             std::size_t workspace_limit_bytes) {
  FamilyModel const& model = kernel.family->model;
  Device device = any_device;
  device.workspace_limit_bytes = workspace_limit_bytes;
  Ranked result{kernel, model.reject(*kernel.variant, problem, device)};
  if (result.rejected == Reason::kNone && kernel.variant->not_deterministic &&
      problem.determinism == MSDA_DETERMINISTIC) {
    result.rejected = Reason::kDeterminism;
  }
  if (result.rejected != Reason::kNone) {
    if (model.numbers_of != nullptr) {
      result.numbers = model.numbers_of(result.rejected, *kernel.variant, problem, device);
    }
    return result;
  }
  Arena arena;
  if (model.workspace != nullptr) model.workspace(*kernel.variant, problem, device, arena);
  result.workspace_bytes = arena.used_bytes();
  if (workspace_limit_bytes != 0 && result.workspace_bytes > workspace_limit_bytes) {
    result.rejected = Reason::kWorkspaceLimit;
    result.numbers = fmt::format("{} bytes, not {}", result.workspace_bytes, workspace_limit_bytes);
    return result;
  }
  result.predicted_us = model.cost(*kernel.variant, problem, device);
  result.may_be_chosen = !kernel.variant->unproven && kernel.variant->suits(problem.point_locality);
  return result;
}

std::vector<Ranked> rank_kernels(Problem const& problem, Device const& device,
                                 std::size_t workspace_limit_bytes,
                                 std::span<const KernelRef> kernels) {
  std::vector<Ranked> ranking;
  ranking.reserve(kernels.size());
  for (KernelRef const& kernel : kernels) {
    ranking.push_back(judge(kernel, problem, device, workspace_limit_bytes));
  }
  auto const rejected = std::stable_partition(
      ranking.begin(), ranking.end(), [](Ranked const& r) { return r.rejected == Reason::kNone; });
  std::ranges::stable_sort(ranking.begin(), rejected, {}, &Ranked::predicted_us);
  settle_last_resorts({ranking.begin(), rejected});
  auto const choice = std::find_if(ranking.begin(), rejected, std::mem_fn(&Ranked::may_be_chosen));
  if (choice != rejected) std::rotate(ranking.begin(), choice, choice + 1);
  return ranking;
}

std::string why_rejected(Ranked const& entry) {
  std::string text(reason_text(entry.rejected));
  return entry.numbers.empty() ? text : text + ": " + entry.numbers;
}

std::string explain_text(std::vector<Ranked> const& ranking) {
  std::string text;
  int rank = 0;
  for (Ranked const& entry : ranking) {
    auto const out = std::back_inserter(text);
    if (entry.rejected == Reason::kNone) {
      fmt::format_to(out, "{}  {}  predicted {:.1f} us{}\n", ++rank, entry.kernel.variant->id,
                     entry.predicted_us, when_chosen(entry));
    } else {
      fmt::format_to(out, "-  {}  rejected: {}\n", entry.kernel.variant->id, why_rejected(entry));
    }
  }
  return text;
}

}  // namespace msda
