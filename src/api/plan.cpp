// msda_plan: choosing a kernel, describing the choice, and plans as bytes.

#include "api/guard.h"
#include "api/objects.h"
#include "api/structs.h"
#include "core/cuda.h"
#include "core/join.h"
#include "plan/blob.h"
#include "plan/selector.h"

#include <fmt/core.h>

#include <memory>
#include <string_view>
#include <vector>

namespace msda::api {
namespace {

msda_plan* finish_plan(msda_handle& handle, Device const& device, Problem&& problem,
                       Ranked const& choice) {
  PlanPtr plan = new_plan(handle, device, std::move(problem));
  cuda::look_for_driver();
  cuda::CurrentDevice const current(handle.device);
  set_kernel(*plan, choice,
             choice.kernel.family->prepare(*choice.kernel.variant, plan->problem, plan->device,
                                           &handle.memory));
  return plan.release();
}

// What could have been meant where no kernel has the id: it without a revision or of another one,
// else any.
std::vector<std::string_view> known_ids(std::string_view id) {
  auto const without_revision = [](std::string_view x) { return x.substr(0, x.find('@')); };
  std::vector<std::string_view> ids;
  for (std::size_t i = 0; i < kernel_count(); ++i) {
    std::string_view const known = kernel_at(i).variant->id;
    if (without_revision(known) == without_revision(id)) return {known};
    ids.push_back(known);
  }
  return ids;
}

Ranked forced_choice(std::string_view id, Problem const& problem, Device const& device,
                     std::size_t workspace_limit_bytes) {
  KernelRef const kernel = find_kernel(id);
  if (kernel.variant == nullptr) {
    auto const ids = known_ids(id);
    invalid("plan_options.kernel_id is '{}': must be {}{}", id, ids.size() > 1 ? "one of " : "",
            join(ids, ", "));
  }
  Ranked const choice = judge(kernel, problem, device, workspace_limit_bytes);
  if (choice.rejected != Reason::kNone) {
    fail(MSDA_ERROR_UNSUPPORTED, "plan_options.kernel_id is '{}': the kernel {}", id,
         reason_text(choice.rejected));
  }
  return choice;
}

// Without a record that holds, the plan is the heuristic's.
Ranked recorded_or_heuristic_choice(msda_handle const& handle, Problem const& problem,
                                    Device const& device, std::size_t workspace_limit_bytes) {
  std::optional<Ranked> const tuned = tuned_choice(handle, problem, device, workspace_limit_bytes);
  return tuned ? *tuned : accepting_kernels(problem, device, workspace_limit_bytes).front();
}

Ranked choose(msda_handle const& handle, Problem const& problem, Device const& device,
              msda_plan_options const& options) {
  std::size_t const limit = options.workspace_limit_bytes;
  switch (options.mode) {
    case MSDA_PLAN_FORCED:
      return forced_choice(options.kernel_id, problem, device, limit);
    case MSDA_PLAN_TUNED:
      return recorded_or_heuristic_choice(handle, problem, device, limit);
    default:
      return accepting_kernels(problem, device, limit).front();
  }
}

msda_plan* create_plan(msda_handle& handle, const msda_problem* problem,
                       msda_plan_options const& options) {
  Problem canonical = canonical_problem(problem, &handle.memory);
  check_plan_options(options, handle.device);
  Device const device = handle.device.limited_to(options.sm_count_limit);
  Ranked const choice = choose(handle, canonical, device, options);
  return finish_plan(handle, device, std::move(canonical), choice);
}

msda_plan* restore_plan(msda_handle& handle, const void* blob, std::size_t blob_size) {
  StoredPlan const stored = decode_plan(blob, blob_size, handle.device);
  KernelRef const kernel = find_kernel(stored.kernel_id);
  if (kernel.variant == nullptr) {
    fail(MSDA_ERROR_STALE_PLAN, "blob is for kernel '{}': this library has {}", stored.kernel_id,
         join(known_ids(stored.kernel_id), ", "));
  }
  msda_problem const problem = stored.problem.view();
  Problem canonical = canonical_problem(&problem, &handle.memory);
  Device const device = handle.device.limited_to(stored.sm_count_limit);
  Ranked const choice = judge(kernel, canonical, device, 0);
  if (choice.rejected != Reason::kNone) {
    fail(MSDA_ERROR_STALE_PLAN, "blob is for kernel '{}': here the kernel {}", stored.kernel_id,
         reason_text(choice.rejected));
  }
  return finish_plan(handle, device, std::move(canonical), choice);
}

}  // namespace

void PlanDeleter::operator()(msda_plan* plan) const noexcept {
  msda_handle* const handle = &plan->handle;
  plan->~msda_plan();
  static_cast<std::pmr::memory_resource&>(handle->memory)
      .deallocate(plan, sizeof(msda_plan), alignof(msda_plan));
  release(handle);
}

PlanPtr new_plan(msda_handle& handle, Device const& device, Problem&& problem) {
  std::pmr::memory_resource& memory = handle.memory;
  void* const storage = memory.allocate(sizeof(msda_plan), alignof(msda_plan));
  auto* const plan = new (storage) msda_plan(handle, device, std::move(problem));
  handle.holds.fetch_add(1, std::memory_order_relaxed);
  return PlanPtr(plan);
}

void set_kernel(msda_plan& plan, Ranked const& choice, PreparedPtr&& prepared) {
  plan.kernel = choice.kernel;
  plan.workspace_bytes = choice.workspace_bytes;
  plan.rules.emplace(plan.problem, choice.workspace_bytes, plan.device);
  plan.predicted_us = choice.predicted_us;
  plan.prepared = std::move(prepared);
  plan.handle.log.write(MSDA_LOG_INFO, "plan: {}, predicted {:.1f} us, workspace {} bytes",
                        choice.kernel.variant->id, choice.predicted_us, choice.workspace_bytes);
}

std::vector<Ranked> accepting_kernels(Problem const& problem, Device const& device,
                                      std::size_t workspace_limit_bytes) {
  std::vector<Ranked> ranking = rank_kernels(problem, device, workspace_limit_bytes);
  if (ranking.empty() || !ranking.front().may_be_chosen()) {
    std::string reasons;
    for (Ranked const& entry : ranking) {
      reasons += fmt::format("; {} {}", entry.kernel.variant->id,
                             entry.rejected == Reason::kNone ? "is only chosen by tuning"
                                                             : reason_text(entry.rejected));
    }
    fail(MSDA_ERROR_UNSUPPORTED, "no kernel takes this problem{}", reasons);
  }
  std::erase_if(ranking, [](Ranked const& entry) { return entry.rejected != Reason::kNone; });
  return ranking;
}

void check_plan_options(msda_plan_options const& options, Device const& device) {
  if (options.mode < MSDA_PLAN_HEURISTIC || options.mode > MSDA_PLAN_FORCED) {
    invalid("plan_options.mode is {}: must be {} (MSDA_PLAN_HEURISTIC) to {} (MSDA_PLAN_FORCED)",
            options.mode, MSDA_PLAN_HEURISTIC, MSDA_PLAN_FORCED);
  }
  if (options.mode == MSDA_PLAN_FORCED && options.kernel_id == nullptr) {
    invalid("plan_options.kernel_id is NULL: must be a kernel id when mode is MSDA_PLAN_FORCED");
  }
  if (options.mode != MSDA_PLAN_FORCED && options.kernel_id != nullptr) {
    invalid("plan_options.kernel_id is '{}': must be NULL unless mode is MSDA_PLAN_FORCED",
            options.kernel_id);
  }
  if (options.sm_count_limit < 0 || (device.is_cpu() && options.sm_count_limit != 0)) {
    invalid("plan_options.sm_count_limit is {}: must be {}", options.sm_count_limit,
            device.is_cpu() ? "0 on a CPU handle" : "0 (all) or more");
  }
}

}  // namespace msda::api

using namespace msda;
using namespace msda::api;

msda_status msda_explain(const msda_handle* handle, const msda_problem* problem, char* text,
                         size_t* text_size) {
  return guard("msda_explain", log_of(handle), [&] {
    required(handle, "handle");
    required(text_size, "text_size");
    Problem const canonical = canonical_problem(problem, std::pmr::new_delete_resource());
    std::string const lines = explain_text(rank_kernels(canonical, handle->device, 0));
    copy_out(lines.c_str(), lines.size() + 1, text, text_size, "text");
  });
}

msda_status msda_plan_create(msda_handle* handle, const msda_problem* problem,
                             const msda_plan_options* options, msda_plan** out) {
  return guard("msda_plan_create", log_of(handle), [&] {
    required(handle, "handle");
    msda_plan*& result = required(out, "out");
    result = create_plan(*handle, problem, read_optional_struct(options, "msda_plan_options"));
  });
}

msda_status msda_plan_get_info(const msda_plan* plan, msda_plan_info* out) {
  return guard("msda_plan_get_info", log_of(plan), [&] {
    required(plan, "plan");
    msda_plan_info info{};
    info.kernel_id = plan->kernel.variant->id;
    info.workspace_bytes = plan->workspace_bytes;
    info.workspace_alignment = Arena::kAlignment;
    info.predicted_us = plan->predicted_us;
    info.launch_count = plan->prepared ? plan->prepared->launch_count : 1;
    info.is_deterministic = 1;
    write_struct(out, info, "msda_plan_info");
  });
}

msda_status msda_plan_serialize(const msda_plan* plan, void* blob, size_t* blob_size) {
  return guard("msda_plan_serialize", log_of(plan), [&] {
    required(plan, "plan");
    std::vector<std::uint8_t> const bytes =
        encode_plan(plan->problem, plan->kernel.variant->id, plan->device);
    copy_out(bytes.data(), bytes.size(), blob, blob_size, "blob");
  });
}

msda_status msda_plan_deserialize(msda_handle* handle, const void* blob, size_t blob_size,
                                  msda_plan** out) {
  return guard("msda_plan_deserialize", log_of(handle), [&] {
    required(handle, "handle");
    if (blob == nullptr) invalid("blob is NULL: must point to {} bytes", blob_size);
    msda_plan*& result = required(out, "out");
    result = restore_plan(*handle, blob, blob_size);
  });
}

void msda_plan_destroy(msda_plan* plan) {
  if (plan != nullptr) PlanPtr(plan).reset();
}
