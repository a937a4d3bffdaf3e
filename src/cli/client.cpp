#include "cli/client.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

namespace msda::cli {
namespace {

constexpr std::size_t kFewestRuns = 3;

// Workspace comes from here rather than a vector for its alignment, which the plan states.
void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
  std::size_t const whole = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, whole);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void write_all(std::vector<std::byte>& memory, int byte) {
  std::memset(memory.data(), byte, memory.size());
  asm volatile("" : : "r"(memory.data()) : "memory");  // nobody reads it, yet it has to be written
}

double elapsed_us(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
      .count();
}

}  // namespace

void require_success(msda_status status) {
  if (status != MSDA_SUCCESS) throw LibraryError(status, msda_last_error());
}

Handle::Handle(std::int32_t device, std::int32_t thread_count) {
  msda_handle_options options{};
  options.struct_size = sizeof(options);
  options.device = device;
  options.thread_count = thread_count;
  msda_handle* handle = nullptr;
  require_success(msda_handle_create(&options, &handle));
  handle_.reset(handle);
}

std::vector<KernelDescription> Handle::kernels() const {
  std::size_t count = 0;
  require_success(msda_kernel_count(get(), &count));
  std::vector<KernelDescription> kernels;
  for (std::size_t i = 0; i < count; ++i) {
    msda_kernel_info info{};
    info.struct_size = sizeof(info);
    require_success(msda_kernel_get(get(), i, &info));
    kernels.push_back({info.kernel_id, info.family, info.sm_min, info.sm_max});
  }
  return kernels;
}

std::string Handle::explain(ProblemSpec const& spec) const {
  msda_problem const problem = spec.to_c();
  std::size_t size = 0;
  require_success(msda_explain(get(), &problem, nullptr, &size));
  std::string text(size, '\0');
  require_success(msda_explain(get(), &problem, text.data(), &size));
  text.resize(std::strlen(text.c_str()));
  return text;
}

Plan::Plan(Handle const& handle, ProblemSpec const& spec, std::string const& kernel_id) {
  msda_problem const problem = spec.to_c();
  msda_plan_options options{};
  options.struct_size = sizeof(options);
  if (!kernel_id.empty()) {
    options.mode = MSDA_PLAN_FORCED;
    options.kernel_id = kernel_id.c_str();
  }
  msda_plan* plan = nullptr;
  require_success(msda_plan_create(handle.get(), &problem, &options, &plan));
  plan_.reset(plan);
  info_.struct_size = sizeof(info_);
  require_success(msda_plan_get_info(plan, &info_));
  if (info_.workspace_bytes > 0) {
    workspace_.reset(allocate_aligned(info_.workspace_bytes, info_.workspace_alignment));
  }
}

void Plan::FreeAligned::operator()(void* memory) const { std::free(memory); }

void Plan::execute(msda_tensors const& tensors) {
  msda_tensors bound = tensors;
  bound.workspace = workspace_.get();
  bound.workspace_bytes = info_.workspace_bytes;
  require_success(msda_execute(plan_.get(), &bound, nullptr));
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
  msda_tensors tensors{};
  tensors.struct_size = sizeof(tensors);
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

Timing time_plan(Plan& plan, msda_tensors const& tensors, TimingOptions const& options) {
  std::vector<std::byte> flush(options.flush_bytes);
  for (std::int64_t i = 0; i < options.warmup; ++i) plan.execute(tensors);
  Timing timing;
  auto const begin = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < options.iterations; ++i) {
    bool const is_late =
        options.seconds_limit > 0 && elapsed_us(begin) > 1e6 * options.seconds_limit;
    if (is_late && timing.microseconds.size() >= kFewestRuns) break;
    if (!flush.empty()) write_all(flush, static_cast<int>(i) & 0xFF);
    auto const start = std::chrono::steady_clock::now();
    plan.execute(tensors);
    timing.microseconds.push_back(elapsed_us(start));
  }
  std::sort(timing.microseconds.begin(), timing.microseconds.end());
  return timing;
}

}  // namespace msda::cli
