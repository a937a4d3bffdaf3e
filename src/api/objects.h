// The structs behind the opaque types of msda.h.
#pragma once

#include "api/check_tensors.h"
#include "core/device.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/problem.h"
#include "cpu/thread_pool.h"
#include "plan/selector.h"
#include "plan/tuning_records.h"
#include "registry.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct msda_handle {
  explicit msda_handle(msda::CallerMemory caller_memory) : memory(caller_memory) {}

  // The caller's memory on the device comes from here.
  std::pmr::memory_resource& call_memory() { return device.is_cpu() ? memory : device_memory; }

  msda::CallerMemory memory;
  msda::Log log;
  msda::CallerMemory device_memory;
  std::string device_name;
  msda::Device device;
  std::optional<msda::ThreadPool> pool;
  msda::TuningRecords records{&memory};
  // The caller's own hold and one for each plan: a plan stays good when its handle is destroyed
  // first.
  std::atomic<std::int64_t> holds{1};
};

struct msda_plan {
  msda_plan(msda_handle& owner, msda::Device const& plan_device, msda::Problem&& canonical)
      : handle(owner), device(plan_device), problem(std::move(canonical)) {}

  msda_handle& handle;
  msda::Device device;  // the handle's, with what of it this plan may use
  msda::Problem problem;
  msda::KernelRef kernel;
  msda::PreparedPtr prepared;
  std::optional<msda::api::CallRules> rules;  // as soon as there is a kernel
  std::size_t workspace_bytes = 0;
  double predicted_us = 0;
};

namespace msda::api {

inline Log const* log_of(const msda_handle* handle) {
  return handle == nullptr ? nullptr : &handle->log;
}
inline Log const* log_of(const msda_plan* plan) {
  return plan == nullptr ? nullptr : &plan->handle.log;
}

// Gives up one hold of the handle; the last one frees it.
void release(msda_handle* handle) noexcept;

struct PlanDeleter {
  void operator()(msda_plan* plan) const noexcept;
};
using PlanPtr = std::unique_ptr<msda_plan, PlanDeleter>;

// A plan without a kernel. From here on it holds the handle.
PlanPtr new_plan(msda_handle& handle, Device const& device, Problem&& problem);
void set_kernel(msda_plan& plan, Ranked const& choice, PreparedPtr&& prepared);

// A handle's threads do not come along into a forked process.
void check_process(Device const& device, std::string_view object);

// Reads and checks every field of the caller's problem; throws StatusError naming the first bad
// one.
Problem canonical_problem(const msda_problem* problem, std::pmr::memory_resource* memory);

// Every field of the options by itself; whether a kernel can keep to them is not asked.
void check_plan_options(msda_plan_options const& options, Device const& device);

}  // namespace msda::api
