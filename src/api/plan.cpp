// msda_plan: creation, description, execution, and plans as bytes.

#include "api/guard.h"
#include "api/objects.h"
#include "api/structs.h"
#include "core/cuda.h"
#include "plan/blob.h"
#include "plan/kernel_choice.h"
#include "plan/selector.h"

#include <vector>

namespace msda::api {
namespace {

msda_plan* finish_plan(msda_handle& handle, Device const& device, Problem&& problem,
                       Ranked const& choice) {
  PlanPtr plan = new_plan(handle, device, std::move(problem));
  cuda::look_for_driver();
  cuda::CurrentDevice const current(handle.device);
  set_kernel(*plan, choice,
             choice.kernel.family->code->prepare(*choice.kernel.variant, plan->problem,
                                                 plan->device, &handle.memory));
  return plan.release();
}

msda_plan* create_plan(msda_handle& handle, const msda_problem* problem,
                       msda_plan_options const& options) {
  Problem canonical = canonical_problem(problem, &handle.memory);
  check_plan_options(options, handle.device);
  Device const device =
      handle.device.limited_to(options.sm_count_limit, options.workspace_limit_bytes);
  KernelWish const wish{options.mode, options.kernel_id == nullptr ? "" : options.kernel_id,
                        options.workspace_limit_bytes};
  Ranked const choice = choose_kernel(wish, canonical, device, handle.records, handle.log);
  return finish_plan(handle, device, std::move(canonical), choice);
}

msda_plan* restore_plan(msda_handle& handle, const void* blob, std::size_t blob_size) {
  StoredPlan const stored = decode_plan(blob, blob_size, handle.device);
  KernelRef const kernel = find_stored_kernel(stored.kernel_id);
  Problem canonical = canonical_problem(&stored.problem.c, &handle.memory);
  Device const device = handle.device.limited_to(stored.sm_count_limit);
  Ranked const choice = accept_stored_kernel(kernel, canonical, device);
  return finish_plan(handle, device, std::move(canonical), choice);
}

}  // namespace

void PlanDeleter::operator()(msda_plan* plan) const noexcept {
  msda_handle* const handle = &plan->handle;
  std::pmr::polymorphic_allocator<>(&handle->memory).delete_object(plan);
  release(handle);
}

PlanPtr new_plan(msda_handle& handle, Device const& device, Problem&& problem) {
  std::pmr::polymorphic_allocator<> allocator(&handle.memory);
  auto* const plan = allocator.new_object<msda_plan>(handle, device, std::move(problem));
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

void check_process(Device const& device, std::string_view object) {
  if (!device.is_cpu() || device.pool->usable_in_this_process()) return;
  invalid("{} was created before fork(): its threads are not in this process; create a handle here",
          object);
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
    info.is_deterministic = plan->kernel.variant->not_deterministic ? 0 : 1;
    write_struct(out, info, "msda_plan_info");
  });
}

// Checks the buffers and launches.
msda_status msda_execute(const msda_plan* plan, const msda_tensors* tensors, msda_stream stream) {
  return guard("msda_execute", log_of(plan), [&] {
    required(plan, "plan");
    Device const& device = plan->device;
    Call const call = plan->rules->check(tensors, stream);
    check_process(device, "plan belongs to a handle that");
    cuda::CurrentDevice const current(device);
    cuda::check_stream(device, stream);
    plan->handle.log.write(MSDA_LOG_TRACE, "execute: {}", plan->kernel.variant->id);
    plan->kernel.family->code->launch(*plan->kernel.variant,
                                      {plan->problem, device, plan->prepared.get(), call});
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
