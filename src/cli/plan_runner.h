// What the command does with the library: plans, tensors, timing. All of it by the public
// interface.
#pragma once

#include "cli/problem_spec.h"

#include <msda.hpp>

#include <string>
#include <vector>

namespace msda::cli {

Handle make_handle(std::int32_t device, std::int32_t thread_count);
std::string explain(Handle const& handle, ProblemSpec const& spec);

// A plan with the workspace of its one caller.
class Runner {
 public:
  // An empty kernel id lets the library choose.
  Runner(Handle const& handle, ProblemSpec const& spec, std::string const& kernel_id);

  msda_plan_info const& info() const { return info_; }
  void execute(msda_tensors const& tensors);

 private:
  Plan plan_;
  Workspace workspace_;
  msda_plan_info info_;
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
Timing time_runs(Runner& runner, msda_tensors const& tensors, TimingOptions const& options);

}  // namespace msda::cli
