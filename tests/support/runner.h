// Handles, plans and calls through the C API, with every buffer guarded.
#pragma once

#include "support/test_problem.h"

#include <msda.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace msda::test {

class TestHandle {
 public:
  explicit TestHandle(std::int32_t thread_count = 2);
  explicit TestHandle(msda_handle_options const& options);
  msda_handle* get() const { return handle_.get(); }
  bool on_gpu() const { return on_gpu_; }
  std::int32_t sm_count() const { return sm_count_; }  // of a GPU

 private:
  struct Destroy {
    void operator()(msda_handle* handle) const { msda_handle_destroy(handle); }
  };
  std::unique_ptr<msda_handle, Destroy> handle_;
  bool on_gpu_ = false;
  std::int32_t sm_count_ = 0;
};

msda_handle_options gpu_options(std::int32_t device = 0);
msda_handle_options cpu_options(std::int32_t thread_count = 2);

struct DestroyPlan {
  void operator()(msda_plan* plan) const { msda_plan_destroy(plan); }
};
using PlanPtr = std::unique_ptr<msda_plan, DestroyPlan>;

struct PlanResult {
  PlanPtr plan;
  msda_status status = MSDA_SUCCESS;
  std::string message;  // of the failure
};
// kernel_id "": the library's choice. sm_count_limit 0: for a GPU what MSDA_TEST_SM_LIMIT asks for,
// where the kernel keeps to a limit; else all.
PlanResult make_plan(TestHandle const& handle, ProblemShape const& shape,
                     std::string const& kernel_id, std::int32_t sm_count_limit = 0,
                     std::size_t workspace_limit_bytes = 0);
msda_plan_info plan_info(msda_plan const* plan);
std::vector<std::uint8_t> serialize(msda_plan const* plan);

std::vector<std::string> kernel_ids(TestHandle const& handle);
// The kernels that take the problem.
std::vector<std::string> accepting_kernels(TestHandle const& handle, ProblemShape const& shape);

// All buffers of one call. Inputs are read-only while the library has them; results and workspace
// are poisoned.
class CallBuffers {
 public:
  // The placement of the buffers between their guard pages follows from the seed.
  CallBuffers(TestProblem const& problem, msda_plan const* plan, std::uint64_t placement_seed);

  msda_tensors const& c() const { return tensors_; }
  msda_tensors& c() { return tensors_; }
  // Gives the call a result that it does not compute where nobody asks for it.
  void ask_for(TensorId extra);
  HostTensor& tensor(TensorId id) { return held_[static_cast<std::size_t>(id)]; }
  void poison();
  // "", or which result was not written in full, or what else was written.
  std::string check_written() const;
  std::string check_untouched() const;

 private:
  template <typename Check>
  std::string check_results(Check check) const;

  ProblemShape shape_;
  std::array<HostTensor, kTensorCount> held_;
  GuardedBuffer workspace_;
  msda_tensors tensors_{};
};

// Executes a plan on host buffers: as they are, or for a plan on a GPU through copies of them in
// device memory, whose surroundings are checked too. Waits for the end.
struct Executed {
  msda_status status = MSDA_SUCCESS;
  std::string message;  // of the library's failure
  std::string failure;  // memory beside a device buffer was written, or the device failed
};
Executed execute(msda_plan const* plan, CallBuffers& buffers);

// The results of one call.
struct RunResult {
  std::string failure;  // "" or what went wrong before there was something to compare
  Arrays values;
  std::array<std::vector<std::uint64_t>, kTensorCount> bits;

  bool same_bits(RunResult const& other) const { return bits == other.bits; }
};
RunResult run(TestHandle const& handle, TestProblem const& problem, std::string const& kernel_id,
              std::uint64_t placement_seed = 0);
// with_extras: the results that only who asks for them gets, too.
RunResult run_plan(msda_plan const* plan, TestProblem const& problem, std::uint64_t placement_seed,
                   bool with_extras = false);

}  // namespace msda::test
