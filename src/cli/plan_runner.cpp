#include "cli/plan_runner.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace msda::cli {
namespace {

constexpr std::size_t kFewestRuns = 3;

void write_all(std::vector<std::byte>& memory, int byte) {
  std::memset(memory.data(), byte, memory.size());
  asm volatile("" : : "r"(memory.data()) : "memory");  // nobody reads it, yet it has to be written
}

double elapsed_us(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

Plan make_plan(Handle const& handle, ProblemSpec const& spec, std::string const& kernel_id) {
  auto options = make<msda_plan_options>();
  if (!kernel_id.empty()) {
    options.mode = MSDA_PLAN_FORCED;
    options.kernel_id = kernel_id.c_str();
  }
  return Plan(handle, spec.to_c(), options);
}

}  // namespace

Handle make_handle(std::int32_t device, std::int32_t thread_count) {
  auto options = make<msda_handle_options>();
  options.device = device;
  options.thread_count = thread_count;
  return Handle(options);
}

std::string explain(Handle const& handle, ProblemSpec const& spec) {
  return handle.explain(spec.to_c());
}

Runner::Runner(Handle const& handle, ProblemSpec const& spec, std::string const& kernel_id)
    : plan_(make_plan(handle, spec, kernel_id)), workspace_(plan_), info_(plan_.info()) {}

void Runner::execute(msda_tensors const& tensors) {
  msda_tensors bound = tensors;
  workspace_.attach(bound);
  plan_.execute(bound);
}

std::vector<NamedArray> make_results(ProblemSpec const& spec,
                                     std::vector<std::string> const& names) {
  std::vector<NamedArray> results;
  for (TensorRow const& row : tensor_table()) {
    if (row.use != Use::kResult || !row.belongs_to(spec)) continue;
    if (!names.empty() && std::find(names.begin(), names.end(), row.name) == names.end()) continue;
    Array array(tensor_type(spec, row), tensor_shape(spec, row));
    std::fill(array.bytes.begin(), array.bytes.end(), std::byte{0xFF});  // NaN in every type
    results.emplace_back(row.name, std::move(array));
  }
  return results;
}

msda_tensors bind(Case const& inputs, std::vector<NamedArray>& results) {
  auto tensors = make<msda_tensors>();
  for (TensorRow const& row : tensor_table()) {
    Array const* const array = inputs.find(row.name);
    if (row.input != nullptr && array != nullptr) tensors.*row.input = array->bytes.data();
    for (auto& [name, result] : results) {
      if (row.result != nullptr && name == row.name) tensors.*row.result = result.bytes.data();
    }
  }
  // The one input that has a type of its own.
  if (Array const* const scale = inputs.find("value_scale"); scale != nullptr) {
    tensors.value_scale = reinterpret_cast<const float*>(scale->bytes.data());
  }
  return tensors;
}

double Timing::median() const {
  std::size_t const count = microseconds.size();
  return 0.5 * (microseconds[(count - 1) / 2] + microseconds[count / 2]);
}

Timing time_runs(Runner& runner, msda_tensors const& tensors, TimingOptions const& options) {
  std::vector<std::byte> flush(options.flush_bytes);
  for (std::int64_t i = 0; i < options.warmup; ++i) runner.execute(tensors);
  Timing timing;
  auto const begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < options.iterations; ++i) {
    bool const is_late =
        options.seconds_limit > 0 && elapsed_us(begin) > 1e6 * options.seconds_limit;
    if (is_late && timing.microseconds.size() >= kFewestRuns) break;
    if (!flush.empty()) write_all(flush, static_cast<int>(i) & 0xFF);
    auto const start = std::chrono::steady_clock::now();
    runner.execute(tensors);
    timing.microseconds.push_back(elapsed_us(start));
  }
  std::sort(timing.microseconds.begin(), timing.microseconds.end());
  return timing;
}

}  // namespace msda::cli
