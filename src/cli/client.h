// The public C interface with owners, exceptions and timing: all that the command knows of the
// library.
#pragma once

#include "cli/problem_spec.h"

#include <msda.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace msda::cli {

// A status of the library, with its message.
struct LibraryError : std::runtime_error {
  LibraryError(msda_status status, const char* message)
      : std::runtime_error(message), status(status) {}
  msda_status status;
};
void require_success(msda_status status);

struct KernelDescription {
  std::string id;
  std::string family;
  std::int32_t sm_min;
  std::int32_t sm_max;
};

class Handle {
 public:
  Handle(std::int32_t device, std::int32_t thread_count);

  std::vector<KernelDescription> kernels() const;
  std::string explain(ProblemSpec const& spec) const;
  msda_handle* get() const { return handle_.get(); }

 private:
  struct Destroy {
    void operator()(msda_handle* handle) const { msda_handle_destroy(handle); }
  };
  std::unique_ptr<msda_handle, Destroy> handle_;
};

// A plan with the workspace of its one caller.
class Plan {
 public:
  // An empty kernel id lets the library choose.
  Plan(Handle const& handle, ProblemSpec const& spec, std::string const& kernel_id);

  msda_plan_info const& info() const { return info_; }
  void execute(msda_tensors const& tensors);

 private:
  struct Destroy {
    void operator()(msda_plan* plan) const { msda_plan_destroy(plan); }
  };
  struct FreeAligned {
    void operator()(void* memory) const;
  };
  std::unique_ptr<msda_plan, Destroy> plan_;
  msda_plan_info info_{};
  std::unique_ptr<void, FreeAligned> workspace_;
};

// The results of the case's problem, filled with NaN so that what a kernel forgets is seen. Only
// those named, or all if `names` is empty.
std::vector<NamedArray> make_results(ProblemSpec const& spec,
                                     std::vector<std::string> const& names);
msda_tensors bind(Case const& inputs, std::vector<NamedArray>& results);

struct Timing {
  std::vector<double> microseconds;  // sorted, one a timed run

  double min() const { return microseconds.front(); }
  double median() const;
  double max() const { return microseconds.back(); }
  double spread() const { return max() - min(); }
};

struct TimingOptions {
  std::int64_t warmup = 2;
  std::int64_t iterations = 11;
  double seconds_limit = 0;     // stops after three runs at the earliest; 0: no limit
  std::size_t flush_bytes = 0;  // written between runs, so that each starts with cold caches
};
Timing time_plan(Plan& plan, msda_tensors const& tensors, TimingOptions const& options);

}  // namespace msda::cli
