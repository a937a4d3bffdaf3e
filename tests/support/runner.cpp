#include "support/runner.h"

#include "command/problem/random_numbers.h"
#include "core/build_config.h"
#include "support/environment.h"
#include "support/expected_reason.h"
#include "support/gpu_memory.h"

#if MSDA_HAS_CUDA
#include <cuda_runtime_api.h>
#endif
#include <fmt/core.h>

#include <stdexcept>

namespace msda::test {
namespace {

void require(msda_status status, const char* what) {
  if (status == MSDA_SUCCESS) return;
  throw std::runtime_error(
      fmt::format("{}: {}: {}", what, msda_status_name(status), msda_last_error()));
}

Placement random_placement(Rng& rng) {
  return {rng.chance(0.3) ? Against::kLowPage : Against::kHighPage,
          rng.chance(0.5) ? 0 : rng.integer(1, 15)};
}

}  // namespace

msda_handle_options cpu_options(std::int32_t thread_count) {
  msda_handle_options options{};
  options.struct_size = sizeof(options);
  options.device = MSDA_DEVICE_CPU;
  options.thread_count = thread_count;
  return options;
}

TestHandle::TestHandle(std::int32_t thread_count) : TestHandle(cpu_options(thread_count)) {}

msda_handle_options gpu_options(std::int32_t device) {
  msda_handle_options options{};
  options.struct_size = sizeof(options);
  options.device = device;
  return options;
}

TestHandle::TestHandle(msda_handle_options const& options) : on_gpu_(options.device >= 0) {
  msda_handle* handle = nullptr;
  require(msda_handle_create(&options, &handle), "msda_handle_create");
  handle_.reset(handle);
#if MSDA_HAS_CUDA
  if (!on_gpu_) return;
  int count = 0;
  require_cuda(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, options.device),
               "cudaDeviceGetAttribute");
  sm_count_ = count;
#endif
}

PlanResult make_plan(TestHandle const& handle, ProblemShape const& shape,
                     std::string const& kernel_id, std::int32_t sm_count_limit,
                     std::size_t workspace_limit_bytes) {
  ProblemCopy view = shape.copy();
  if (!kernel_id.empty() && !is_deterministic(kernel_id))
    view.c.determinism = MSDA_NONDETERMINISTIC;
  msda_plan_options options{};
  options.struct_size = sizeof(options);
  options.mode = kernel_id.empty() ? MSDA_PLAN_HEURISTIC : MSDA_PLAN_FORCED;
  options.kernel_id = kernel_id.empty() ? nullptr : kernel_id.c_str();
  std::int32_t const of_tests = sm_limit_of_tests().value_or(0);
  bool const by_environment =
      sm_count_limit == 0 && handle.on_gpu() && keeps_sm_limit(kernel_id, of_tests);
  options.sm_count_limit = by_environment ? of_tests : sm_count_limit;
  options.workspace_limit_bytes = workspace_limit_bytes;
  msda_plan* plan = nullptr;
  PlanResult result;
  result.status = msda_plan_create(handle.get(), &view.c, &options, &plan);
  result.plan.reset(plan);
  if (result.status != MSDA_SUCCESS) result.message = msda_last_error();
  return result;
}

msda_plan_info plan_info(msda_plan const* plan) {
  msda_plan_info info{};
  info.struct_size = sizeof(info);
  require(msda_plan_get_info(plan, &info), "msda_plan_get_info");
  return info;
}

std::vector<std::uint8_t> serialize(msda_plan const* plan) {
  std::size_t bytes = 0;
  require(msda_plan_serialize(plan, nullptr, &bytes), "msda_plan_serialize");
  std::vector<std::uint8_t> blob(bytes);
  require(msda_plan_serialize(plan, blob.data(), &bytes), "msda_plan_serialize");
  if (bytes != blob.size()) throw std::runtime_error("msda_plan_serialize: two sizes of one blob");
  return blob;
}

std::vector<std::string> kernel_ids(TestHandle const& handle) {
  std::size_t count = 0;
  require(msda_kernel_count(handle.get(), &count), "msda_kernel_count");
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < count; ++i) {
    msda_kernel_info info{};
    info.struct_size = sizeof(info);
    require(msda_kernel_get(handle.get(), i, &info), "msda_kernel_get");
    ids.emplace_back(info.kernel_id);
  }
  std::string begin = kernels_of_tests();
  bool const others = begin.starts_with('-');
  begin.erase(0, others ? 1 : 0);
  std::size_t const left =
      std::erase_if(ids, [&](std::string const& id) { return id.starts_with(begin) == others; });
  if (!begin.empty() && (others ? left == 0 : ids.empty())) {
    throw std::runtime_error("MSDA_TEST_KERNELS: no kernel's id begins with " + begin);
  }
  return ids;
}

std::vector<std::string> accepting_kernels(TestHandle const& handle, ProblemShape const& shape) {
  std::vector<std::string> accepting;
  for (std::string const& id : kernel_ids(handle)) {
    PlanResult const result = make_plan(handle, shape, id);
    if (result.status == MSDA_SUCCESS) accepting.push_back(id);
    if (result.status != MSDA_SUCCESS && result.status != MSDA_ERROR_UNSUPPORTED) {
      throw std::runtime_error(result.message);
    }
  }
  return accepting;
}

CallBuffers::CallBuffers(TestProblem const& problem, msda_plan const* plan,
                         std::uint64_t placement_seed)
    : shape_(problem.shape) {
  Rng rng(placement_seed);
  tensors_.struct_size = sizeof(tensors_);
  for (TensorRow const& row : tensor_rows()) {
    std::vector<double> const& values = problem.inputs[row.id];
    bool const is_there =
        row.belongs_to(shape_) && !(row.id == TensorId::kValueScale && values.empty());
    if (!is_there || row.is_extra()) continue;
    HostTensor& tensor = held_[static_cast<std::size_t>(row.id)];
    tensor = HostTensor(layout_of(shape_, row.id), random_placement(rng));
    if (!row.is_result()) {
      tensor.set_values(values);
      tensor.buffer().set_read_only(true);
    }
    // An empty tensor may be NULL or point anywhere.
    if (tensor.layout().span() == 0 && rng.chance(0.5)) continue;
    set_pointer(tensors_, row.id, tensor.data());
  }
  msda_plan_info const info = plan_info(plan);
  workspace_ = GuardedBuffer(info.workspace_bytes, info.workspace_alignment);
  tensors_.workspace = info.workspace_bytes == 0 ? nullptr : workspace_.data();
  tensors_.workspace_bytes = info.workspace_bytes;
  poison();
}

void CallBuffers::ask_for(TensorId extra) {
  HostTensor& tensor = held_[static_cast<std::size_t>(extra)];
  tensor = HostTensor(layout_of(shape_, extra), {});
  tensor.poison();
  set_pointer(tensors_, extra, tensor.data());
}

void CallBuffers::poison() {
  for (TensorRow const& row : tensor_rows()) {
    if (row.is_result() || row.is_extra()) held_[static_cast<std::size_t>(row.id)].poison();
  }
  for (std::size_t i = 0; i + 8 <= workspace_.size(); i += 8) {
    store_bits(MSDA_DTYPE_F64, workspace_.data() + i, poison_bits(MSDA_DTYPE_F64));
  }
}

template <typename Check>
std::string CallBuffers::check_results(Check check) const {
  for (TensorRow const& row : tensor_rows()) {
    HostTensor const& tensor = held_[static_cast<std::size_t>(row.id)];
    std::string const wrong = row.is_result() || row.is_extra() ? check(tensor) : "";
    if (!wrong.empty()) return fmt::format("{}: {}", row.name, wrong);
  }
  return workspace_.surroundings_intact() ? "" : "workspace: memory beside it was written";
}

std::string CallBuffers::check_written() const {
  return check_results([](HostTensor const& tensor) { return tensor.check_written(); });
}

std::string CallBuffers::check_untouched() const {
  return check_results([](HostTensor const& tensor) { return tensor.check_untouched(); });
}

Executed execute(msda_plan const* plan, CallBuffers& buffers) {
  if (std::string_view(plan_info(plan).kernel_id).find(".sm") != std::string_view::npos) {
    return execute_on_gpu(plan, buffers);
  }
  Executed result{msda_execute(plan, &buffers.c(), nullptr), "", ""};
  if (result.status != MSDA_SUCCESS) result.message = msda_last_error();
  return result;
}

RunResult run_plan(msda_plan const* plan, TestProblem const& problem, std::uint64_t placement_seed,
                   bool with_extras) {
  CallBuffers buffers(problem, plan, placement_seed);
  auto const is_wanted = [&](TensorRow const& row) {
    return (row.is_result() || (with_extras && row.is_extra())) && row.belongs_to(problem.shape);
  };
  for (TensorRow const& row : tensor_rows()) {
    if (row.is_extra() && is_wanted(row)) buffers.ask_for(row.id);
  }
  RunResult result;
  Executed const executed = execute(plan, buffers);
  if (executed.status != MSDA_SUCCESS) {
    result.failure = fmt::format("{}: {}", msda_status_name(executed.status), executed.message);
    return result;
  }
  result.failure = executed.failure.empty() ? buffers.check_written() : executed.failure;
  for (TensorRow const& row : tensor_rows()) {
    if (!is_wanted(row)) continue;
    result.values[row.id] = buffers.tensor(row.id).values();
    result.bits[static_cast<std::size_t>(row.id)] = buffers.tensor(row.id).bits();
  }
  return result;
}

RunResult run(TestHandle const& handle, TestProblem const& problem, std::string const& kernel_id,
              std::uint64_t placement_seed) {
  PlanResult const plan = make_plan(handle, problem.shape, kernel_id);
  if (plan.status != MSDA_SUCCESS) {
    RunResult result;
    result.failure = plan.message;
    return result;
  }
  return run_plan(plan.plan.get(), problem, placement_seed);
}

}  // namespace msda::test
