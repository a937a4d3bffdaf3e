// One kernel on one case of the corpus: what tests/simt/plant_bugs runs with a bug in the kernel.
#include "support/case_file.h"
#include "support/expected_reason.h"
#include "support/gpu_memory.h"
#include "support/gpu_tests.h"
#include "support/runner.h"
#include "support/tolerance.h"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

using namespace msda::test;

namespace {

// A tensor of the host in device memory, without the guards of GpuBuffer: the address sanitizer
// sees the first byte beside it.
class ExactCopy {
 public:
  explicit ExactCopy(HostTensor const& tensor)
      : host_(tensor.data()),
        bytes_(static_cast<std::size_t>(tensor.layout().span()) *
               element_bytes(tensor.layout().dtype)) {
    require_cuda(cudaMalloc(&device_, bytes_), "cudaMalloc");
    require_cuda(cudaMemcpy(device_, host_, bytes_, cudaMemcpyHostToDevice), "copying");
  }
  ~ExactCopy() { static_cast<void>(cudaFree(device_)); }
  ExactCopy(ExactCopy&& other) noexcept
      : host_(other.host_), bytes_(other.bytes_), device_(std::exchange(other.device_, nullptr)) {}

  void* data() const { return device_; }
  void copy_back() const {
    require_cuda(cudaMemcpy(host_, device_, bytes_, cudaMemcpyDeviceToHost), "copying back");
  }

 private:
  void* host_;
  std::size_t bytes_;
  void* device_ = nullptr;
};

// MSDA_PLANTED_KERNEL: an id; MSDA_PLANTED_CASE: a name of tests/cases.
std::string variable(const char* name) {
  const char* const text = std::getenv(name);
  REQUIRE_MESSAGE(text != nullptr, name << " is not set");
  return text;
}

void check_problem(msda_plan const* plan, TestProblem const& problem, std::string const& id) {
  CallBuffers host(problem, plan, 0);
  msda_tensors tensors = host.c();
  std::vector<ExactCopy> copies;
  std::size_t output = 0;
  for (TensorRow const& row : tensor_rows()) {
    if (!row.belongs_to(problem.shape) || host.tensor(row.id).data() == nullptr) continue;
    if (row.id == TensorId::kOutput) output = copies.size();
    copies.emplace_back(host.tensor(row.id));
    set_pointer(tensors, row.id, copies.back().data());
  }
  std::size_t const workspace_bytes = plan_info(plan).workspace_bytes;
  if (workspace_bytes > 0) {
    require_cuda(cudaMalloc(&tensors.workspace, workspace_bytes), "cudaMalloc");
  }
  // The second call may begin while the first one runs, and computes the same.
  for (int call = 0; call < 2; ++call) {
    REQUIRE(msda_execute(plan, &tensors, nullptr) == MSDA_SUCCESS);
  }
  require_cuda(cudaDeviceSynchronize(), "running the kernel");
  if (workspace_bytes > 0) require_cuda(cudaFree(tensors.workspace), "cudaFree");
  copies[output].copy_back();
  Expected const expected = Expectations(problem, arithmetic_of(id))[TensorId::kOutput];
  CHECK(compare(expected, host.tensor(TensorId::kOutput).values()).failure == "");
}

}  // namespace

TEST_CASE("planted: the kernel is right on the case" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  std::string const id = variable("MSDA_PLANTED_KERNEL");
  CorpusCase const item = corpus_case(variable("MSDA_PLANTED_CASE"));
  int runs = 0;
  for (ProblemShape const& shape : item.shapes()) {
    PlanResult const plan = make_plan(handle, shape, id);
    if (plan.status == MSDA_ERROR_UNSUPPORTED) continue;  // another value type
    REQUIRE(plan.message == "");
    CAPTURE(shape.describe());
    check_problem(plan.plan.get(), item.make(shape), id);
    ++runs;
  }
  CHECK(runs == 1);
}
