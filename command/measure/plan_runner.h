// The command's use of the library: plans, tensors, timing. All of it by the public
// interface.
#pragma once

#include "command/problem/case_part.h"

#include <msda.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace msda::command {

// A handle, and the device that it is for.
struct Engine {
  Engine(std::int32_t device_number, std::int32_t thread_count);

  std::int32_t device;
  Handle handle;
  bool has_wisdom = false;  // plans take the kernel of the handle's tuning records where they can
};

// One problem's tensors in the memory of a GPU, and the time its kernels take there. A command that
// was built without CUDA cannot make one; it cannot have a plan for a GPU either.
class GpuCall {
 public:
  explicit GpuCall(std::int32_t device);
  ~GpuCall();
  GpuCall(GpuCall const&) = delete;
  GpuCall& operator=(GpuCall const&) = delete;

  // Device memory with a copy of `bytes` bytes of the host; fetch() brings results back to there.
  void* add(void* host, std::size_t bytes, bool is_result);
  void* workspace(std::size_t bytes);

  // Waits for the work so far; throws std::runtime_error when the device failed.
  void fetch();

  // Microseconds between the two, as the device counts them. The first may write `flush_bytes`
  // before, so that the caches hold nothing of the problem.
  void start_timing(std::size_t flush_bytes);
  double stop_timing();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A plan, the tensors it is bound to, and its workspace.
class Runner {
 public:
  // An empty kernel id lets the library choose.
  Runner(Engine const& engine, ProblemShape const& spec, std::string const& kernel_id);

  msda_plan_info const& info() const { return info_; }
  // Results are where fetch() brings them; on a GPU everything is copied there.
  void bind(Case const& inputs, std::vector<NamedArray>& results);
  void execute();
  void fetch();
  // The id of the kernel that is the fastest on the tensors bound, which goes into the handle's
  // tuning records.
  std::string tune(Engine const& engine, ProblemShape const& spec, double budget_ms) const;
  // One execution, in microseconds, after writing `flush_bytes`.
  double time_once(std::size_t flush_bytes);

 private:
  Plan plan_;
  msda_plan_info info_;
  std::int32_t device_;
  Workspace workspace_;           // on the CPU
  std::unique_ptr<GpuCall> gpu_;  // on a GPU
  Bytes flush_;                   // on the CPU
  msda_tensors tensors_{};
};

// The results of the case's problem, filled with NaN so that what a kernel forgets is seen. Only
// those named, or all but the extra ones if `names` is empty.
std::vector<NamedArray> make_results(ProblemShape const& spec,
                                     std::vector<std::string> const& names);

// The results of one run.
std::vector<NamedArray> run_kernel(Case const& input, Engine const& engine,
                                   std::string const& kernel_id);

struct Timing {
  std::vector<double> microseconds;  // sorted, one a timed run

  double min() const { return microseconds.front(); }
  double median() const { return quantile(0.5); }
  double max() const { return microseconds.back(); }
  // The time that this fraction of the runs did not exceed, between two runs by a line.
  double quantile(double fraction) const;
};

struct TimingOptions {
  std::int64_t warmup = 2;
  std::int64_t iterations = 11;
  double seconds_limit = 0;     // stops after three runs at the earliest; 0: no limit
  std::size_t flush_bytes = 0;  // written between runs, so that each starts with cold caches
};
Timing time_runs(Runner& runner, TimingOptions const& options);

}  // namespace msda::command
