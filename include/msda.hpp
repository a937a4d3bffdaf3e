/**
 * @file msda.hpp
 * RAII over msda.h for C++17 and newer: handles and plans that end themselves, failures as
 * exceptions. It adds no behaviour; what a field or a function means is written in msda.h alone.
 *
 *     msda::Handle handle = msda::Handle::cpu();
 *     auto problem = msda::make<msda_problem>();
 *     ...                                            // fields as in msda.h
 *     msda::Plan plan(handle, problem);
 *     msda::Workspace workspace(plan);
 *     auto tensors = msda::make<msda_tensors>();
 *     ...
 *     workspace.attach(tensors);
 *     plan.execute(tensors);
 */
#ifndef MSDA_HPP_
#define MSDA_HPP_

#include "msda.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msda {

/** A call failed: what() is msda_last_error(), status() says how. */
class Error : public std::runtime_error {
 public:
  Error(msda_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  msda_status status() const noexcept { return status_; }

 private:
  msda_status status_;
};

/** Throws Error unless the status is MSDA_SUCCESS. */
inline void check(msda_status status) {
  if (status != MSDA_SUCCESS) throw Error(status, msda_last_error());
}

/** A zeroed struct of msda.h with its struct_size set. */
template <typename Struct>
Struct make() {
  Struct result{};
  result.struct_size = sizeof(Struct);
  return result;
}

/** Owns a msda_handle. Moves, does not copy. Its plans stay good when it is destroyed first. */
class Handle {
 public:
  explicit Handle(const msda_handle_options& options) {
    msda_handle* handle = nullptr;
    check(msda_handle_create(&options, &handle));
    handle_.reset(handle);
  }

  /** The CPU backend; thread_count 0 takes all hardware threads. */
  static Handle cpu(std::int32_t thread_count = 0) {
    auto options = make<msda_handle_options>();
    options.device = MSDA_DEVICE_CPU;
    options.thread_count = thread_count;
    return Handle(options);
  }

  /** The CUDA device of this ordinal. */
  static Handle cuda(std::int32_t device = 0) {
    auto options = make<msda_handle_options>();
    options.device = device;
    return Handle(options);
  }

  msda_handle* get() const noexcept { return handle_.get(); }

  /** One line a kernel: its rank for the problem, or why it was rejected. */
  std::string explain(const msda_problem& problem) const {
    std::size_t size = 0;
    check(msda_explain(get(), &problem, nullptr, &size));
    std::string text(size, '\0');
    check(msda_explain(get(), &problem, text.data(), &size));
    text.resize(size - 1);
    return text;
  }

  /** The tuning records as text. */
  std::string tuning_export() const {
    std::size_t size = 0;
    check(msda_tuning_export(get(), nullptr, &size));
    for (;;) {
      std::string text(size, '\0');
      const msda_status status = msda_tuning_export(get(), text.data(), &size);
      if (status == MSDA_ERROR_BUFFER_TOO_SMALL) continue;  // another thread has added some
      check(status);
      text.resize(size - 1);
      return text;
    }
  }

  /** Adds records that tuning_export() wrote. */
  void tuning_import(const std::string& text) const {
    check(msda_tuning_import(get(), text.data(), text.size()));
  }

  /** All kernels of the library, whether or not they run on this device. */
  std::vector<msda_kernel_info> kernels() const {
    std::size_t count = 0;
    check(msda_kernel_count(get(), &count));
    std::vector<msda_kernel_info> kernels(count, make<msda_kernel_info>());
    for (std::size_t i = 0; i < count; ++i) check(msda_kernel_get(get(), i, &kernels[i]));
    return kernels;
  }

 private:
  struct Destroy {
    void operator()(msda_handle* handle) const noexcept { msda_handle_destroy(handle); }
  };
  std::unique_ptr<msda_handle, Destroy> handle_;
};

/** Owns a msda_plan. Moves, does not copy; several threads may execute one. */
class Plan {
 public:
  Plan(const Handle& handle, const msda_problem& problem) { create(handle, problem, nullptr); }
  Plan(const Handle& handle, const msda_problem& problem, const msda_plan_options& options) {
    create(handle, problem, &options);
  }

  /** The plan that serialize() wrote. */
  static Plan deserialize(const Handle& handle, const std::vector<std::uint8_t>& blob) {
    msda_plan* plan = nullptr;
    check(msda_plan_deserialize(handle.get(), blob.data(), blob.size(), &plan));
    return Plan(plan);
  }

  /** The plan with the fastest kernel on these tensors. */
  static Plan tune(const Handle& handle, const msda_problem& problem,
                   const msda_plan_options& options, const msda_tensors& sample, msda_stream stream,
                   double budget_ms) {
    msda_plan* plan = nullptr;
    check(msda_plan_tune(handle.get(), &problem, &options, &sample, stream, budget_ms, &plan));
    return Plan(plan);
  }

  std::vector<std::uint8_t> serialize() const {
    std::size_t size = 0;
    check(msda_plan_serialize(get(), nullptr, &size));
    std::vector<std::uint8_t> blob(size);
    check(msda_plan_serialize(get(), blob.data(), &size));
    return blob;
  }

  msda_plan_info info() const {
    auto info = make<msda_plan_info>();
    check(msda_plan_get_info(get(), &info));
    return info;
  }

  void execute(const msda_tensors& tensors, msda_stream stream = nullptr) const {
    check(msda_execute(get(), &tensors, stream));
  }

  msda_plan* get() const noexcept { return plan_.get(); }

 private:
  explicit Plan(msda_plan* plan) : plan_(plan) {}
  void create(const Handle& handle, const msda_problem& problem, const msda_plan_options* options) {
    msda_plan* plan = nullptr;
    check(msda_plan_create(handle.get(), &problem, options, &plan));
    plan_.reset(plan);
  }

  struct Destroy {
    void operator()(msda_plan* plan) const noexcept { msda_plan_destroy(plan); }
  };
  std::unique_ptr<msda_plan, Destroy> plan_;
};

/** A forward and a backward plan of one problem; its operation is not looked at. */
struct Plans {
  Plans(const Handle& handle, const msda_problem& problem,
        const msda_plan_options& options = make<msda_plan_options>())
      : forward(handle, with(problem, MSDA_FORWARD), options),
        backward(handle, with(problem, MSDA_BACKWARD), options) {}

  Plan forward, backward;

 private:
  static msda_problem with(msda_problem problem, msda_operation operation) {
    problem.operation = operation;
    return problem;
  }
};

/** Memory for the workspace of a plan, aligned as it asks. One for each call in flight. Moves, does
 * not copy. */
class Workspace {
 public:
  /** Host memory, for a plan of the CPU. */
  explicit Workspace(const Plan& plan) { take(plan.info(), Host(), Host()); }

  /** For whichever of the two runs. */
  explicit Workspace(const Plans& plans) : Workspace(plans, Host(), Host()) {}

  /** Memory of the caller's, for a plan of a GPU: allocate(bytes) returns void*, aligned to 256 as
   * cudaMalloc() does, or throws; free(pointer) gives it back.
   *
   *     msda::Workspace workspace(plan, allocate, [](void* p) { cudaFree(p); });
   */
  template <typename Allocate, typename Free>
  Workspace(const Plan& plan, Allocate allocate, Free free) {
    take(plan.info(), allocate, free);
  }
  template <typename Allocate, typename Free>
  Workspace(const Plans& plans, Allocate allocate, Free free) {
    msda_plan_info larger = plans.forward.info();
    const msda_plan_info backward = plans.backward.info();
    if (larger.workspace_bytes < backward.workspace_bytes)
      larger.workspace_bytes = backward.workspace_bytes;
    if (larger.workspace_alignment < backward.workspace_alignment)
      larger.workspace_alignment = backward.workspace_alignment;
    take(larger, allocate, free);
  }

  void attach(msda_tensors& tensors) const noexcept {
    tensors.workspace = memory_.get();
    tensors.workspace_bytes = bytes_;
  }

 private:
  using Memory = std::unique_ptr<void, std::function<void(void*)>>;

  /** operator new and its delete, aligned to a cache line and more. */
  struct Host {
    static constexpr std::align_val_t kAlignment{256};
    void* operator()(std::size_t bytes) const { return ::operator new(bytes, kAlignment); }
    void operator()(void* memory) const noexcept { ::operator delete(memory, kAlignment); }
  };

  template <typename Allocate, typename Free>
  void take(const msda_plan_info& info, Allocate allocate, Free free) {
    if (info.workspace_bytes == 0) return;
    std::function<void(void*)> release(std::move(free));  // may throw, so it comes first
    memory_ = Memory(allocate(info.workspace_bytes), std::move(release));
    if (reinterpret_cast<std::uintptr_t>(memory_.get()) % info.workspace_alignment != 0) {
      throw Error(MSDA_ERROR_INVALID_ARGUMENT,
                  "msda::Workspace: the memory allocated is not aligned to " +
                      std::to_string(info.workspace_alignment) + " bytes");
    }
    bytes_ = info.workspace_bytes;
  }

  Memory memory_;
  std::size_t bytes_ = 0;
};

}  // namespace msda

#endif  // MSDA_HPP_
