#include "command/measure/plan_runner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace msda::command {
namespace {

constexpr std::size_t kFewestRuns = 3;

void write_all(Bytes& memory) {
  static int byte = 0;
  std::fill(memory.begin(), memory.end(), static_cast<std::byte>(++byte & 0xFF));
  asm volatile("" : : "r"(memory.data()) : "memory");  // nobody reads it, yet it has to be written
}

double elapsed_us(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

Plan make_plan(Engine const& engine, ProblemShape const& spec, std::string const& kernel_id) {
  auto options = make<msda_plan_options>();
  if (engine.has_wisdom) options.mode = MSDA_PLAN_TUNED;
  if (!kernel_id.empty()) {
    options.mode = MSDA_PLAN_FORCED;
    options.kernel_id = kernel_id.c_str();
  }
  return Plan(engine.handle, spec.copy().c, options);
}

Handle make_handle(std::int32_t device, std::int32_t thread_count) {
  auto options = make<msda_handle_options>();
  options.device = device;
  options.thread_count = thread_count;
  return Handle(options);
}

}  // namespace

Engine::Engine(std::int32_t device_number, std::int32_t thread_count)
    : device(device_number), handle(make_handle(device_number, thread_count)) {}

Runner::Runner(Engine const& engine, ProblemShape const& spec, std::string const& kernel_id)
    : plan_(make_plan(engine, spec, kernel_id)),
      info_(plan_.info()),
      device_(engine.device),
      workspace_(plan_) {}

void Runner::bind(Case const& inputs, std::vector<NamedArray>& results) {
  if (device_ >= 0) gpu_ = std::make_unique<GpuCall>(device_);
  auto const place = [this](Array const& array, bool is_result) -> void* {
    auto* const host = const_cast<std::byte*>(array.bytes.data());
    return gpu_ ? gpu_->add(host, array.bytes.size(), is_result) : host;
  };
  tensors_ = make<msda_tensors>();
  for (TensorRow const& row : tensor_rows()) {
    if (Array const* const array = inputs.find(row.name)) {
      set_pointer(tensors_, row.id, place(*array, false));
    }
    for (auto& [name, result] : results) {
      if (name == row.name) set_pointer(tensors_, row.id, place(result, true));
    }
  }
  workspace_.attach(tensors_);
  if (gpu_) tensors_.workspace = gpu_->workspace(info_.workspace_bytes);
}

void Runner::execute() { plan_.execute(tensors_); }

void Runner::fetch() {
  if (gpu_) gpu_->fetch();
}

std::string Runner::tune(Engine const& engine, ProblemShape const& spec, double budget_ms) const {
  msda_tensors sample = tensors_;
  sample.workspace = nullptr;  // the library takes what each kernel needs
  sample.workspace_bytes = 0;
  return Plan::tune(engine.handle, spec.copy().c, make<msda_plan_options>(), sample, nullptr,
                    budget_ms)
      .info()
      .kernel_id;
}

double Runner::time_once(std::size_t flush_bytes) {
  if (gpu_) {
    gpu_->start_timing(flush_bytes);
    execute();
    return gpu_->stop_timing();
  }
  flush_.resize(flush_bytes);
  write_all(flush_);
  auto const start = std::chrono::steady_clock::now();
  execute();
  return elapsed_us(start);
}

std::vector<NamedArray> make_results(ProblemShape const& spec,
                                     std::vector<std::string> const& names) {
  std::vector<NamedArray> results;
  for (TensorRow const& row : tensor_rows()) {
    bool const is_named = std::find(names.begin(), names.end(), row.name) != names.end();
    bool const is_wanted = is_named || (names.empty() && row.is_result());
    if (!is_wanted || !row.belongs_to(spec)) continue;
    Array array(tensor_type(spec, row), tensor_shape(spec, row));
    std::fill(array.bytes.begin(), array.bytes.end(), std::byte{0xFF});  // NaN in every type
    results.emplace_back(row.name, std::move(array));
  }
  return results;
}

std::vector<NamedArray> run_kernel(Case const& input, Engine const& engine,
                                   std::string const& kernel_id) {
  Runner runner(engine, input.spec, kernel_id);
  auto results = make_results(input.spec, {});
  runner.bind(input, results);
  runner.execute();
  runner.fetch();
  return results;
}

double Timing::quantile(double fraction) const {
  double const at = fraction * static_cast<double>(microseconds.size() - 1);
  auto const below = static_cast<std::size_t>(at);
  std::size_t const above = std::min(below + 1, microseconds.size() - 1);
  return std::lerp(microseconds[below], microseconds[above], at - static_cast<double>(below));
}

Timing time_runs(Runner& runner, TimingOptions const& options) {
  for (std::int64_t i = 0; i < options.warmup; ++i) runner.execute();
  Timing timing;
  auto const begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < options.iterations; ++i) {
    bool const is_late =
        options.seconds_limit > 0 && elapsed_us(begin) > 1e6 * options.seconds_limit;
    if (is_late && timing.microseconds.size() >= kFewestRuns) break;
    timing.microseconds.push_back(runner.time_once(options.flush_bytes));
  }
  runner.fetch();
  std::sort(timing.microseconds.begin(), timing.microseconds.end());
  return timing;
}

}  // namespace msda::command
