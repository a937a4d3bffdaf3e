// Handles of two devices in one process, whichever is current.

#include "core/build_config.h"

#if MSDA_HAS_CUDA
#include "support/case_file.h"
#include "support/cuda_watch.h"
#include "support/expected_reason.h"
#include "support/gpu_memory.h"
#include "support/gpu_tests.h"
#include "support/kernel_cases.h"
#include "support/runner.h"
#include "support/tuning_calls.h"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace msda::test;

namespace {

int current_gpu() {
  int device = -1;
  require_cuda(cudaGetDevice(&device), "reading the current device");
  return device;
}

// A plan of one of the two devices and its buffers there.
class Scene {
 public:
  Scene(TestHandle const& handle, int device, TestProblem const& problem, std::string const& id)
      : device_(device), plan_(make_plan(handle, problem.shape, id)) {
    REQUIRE(plan_.message == "");
    buffers_ = std::make_unique<CallBuffers>(problem, plan_.plan.get(), 3);
    CurrentGpu const current(device);
    call_ = std::make_unique<GpuCall>(plan_.plan.get(), *buffers_);
  }
  ~Scene() {
    CurrentGpu const current(device_);
    call_.reset();
  }

  msda_status execute(cudaStream_t stream = nullptr) {
    return msda_execute(plan_.plan.get(), &call_->c(), stream);
  }
  // "" or what went wrong.
  std::string finish() {
    CurrentGpu const current(device_);
    std::string const failure = call_->finish();
    return failure.empty() ? buffers_->check_written() : failure;
  }
  std::vector<std::vector<std::uint64_t>> bits() {
    std::vector<std::vector<std::uint64_t>> all;
    for (TensorRow const& row : tensor_rows()) {
      if (row.is_result()) all.push_back(buffers_->tensor(row.id).bits());
    }
    return all;
  }
  void poison() {
    CurrentGpu const current(device_);
    buffers_->poison();
    call_->reset();
  }
  CallBuffers& buffers() { return *buffers_; }
  msda_tensors const& c() const { return call_->c(); }

 private:
  int device_;
  PlanResult plan_;
  std::unique_ptr<CallBuffers> buffers_;
  std::unique_ptr<GpuCall> call_;
};

struct TwoHandles {
  TestHandle first{gpu_options(0)};
  TestHandle second{gpu_options(1)};
};

}  // namespace

TEST_CASE("both operations with the other device current, on two GPUs" * needs_gpus(2)) {
  TwoHandles const handles;
  for_kernels_and_cases(handles.first, {"encoder_grid", "decoder", "dfine"},
                        [&](TestProblem const& problem, std::string const& id) {
                          std::vector<std::vector<std::uint64_t>> expected;
                          for (int const device : {0, 1}) {
                            CAPTURE(device);
                            // The plan is made, run and destroyed there.
                            CurrentGpu const other(1 - device);
                            TestHandle const& handle = device == 0 ? handles.first : handles.second;
                            Scene scene(handle, device, problem, id);
                            CHECK(scene.execute() == MSDA_SUCCESS);
                            CHECK(current_gpu() == 1 - device);
                            CHECK(scene.finish() == "");
                            if (device == 0) expected = scene.bits();
                            if (is_deterministic(id)) CHECK(scene.bits() == expected);
                          }
                        });
}

TEST_CASE("both operations on two devices at once, on two GPUs" * needs_gpus(2)) {
  constexpr int kCalls = 20;
  TwoHandles const handles;
  for_kernels_and_cases(
      handles.first, {"decoder", "bev_heads"},
      [&](TestProblem const& problem, std::string const& id) {
        Scene scenes[2] = {{handles.first, 0, problem, id}, {handles.second, 1, problem, id}};
        bool good[2] = {false, false};
        std::vector<std::thread> threads;
        for (int const device : {0, 1}) {
          threads.emplace_back([&, device] {
            cudaStream_t stream = nullptr;
            if (cudaSetDevice(device) != cudaSuccess) return;
            if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess) return;
            // Where the thread is when it calls is none of the library's concern.
            if (cudaSetDevice(1 - device) != cudaSuccess) return;
            good[device] = true;
            for (int i = 0; i < kCalls; ++i) {
              good[device] &= scenes[device].execute(stream) == MSDA_SUCCESS;
            }
            good[device] &= cudaStreamSynchronize(stream) == cudaSuccess;
            good[device] &= cudaStreamDestroy(stream) == cudaSuccess;
          });
        }
        for (std::thread& thread : threads) thread.join();
        for (int const device : {0, 1}) {
          CAPTURE(device);
          CHECK(good[device]);
          CHECK(scenes[device].finish() == "");
        }
        if (is_deterministic(id)) CHECK(scenes[0].bits() == scenes[1].bits());
      });
}

TEST_CASE("a stream of another device is refused, on two GPUs" * needs_gpus(2)) {
  TwoHandles const handles;
  cudaStream_t stream = nullptr;
  {
    CurrentGpu const second(1);
    require_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  }
  for_kernels_and_cases(
      handles.first, {"decoder"}, [&](TestProblem const& problem, std::string const& id) {
        Scene scene(handles.first, 0, problem, id);
        CHECK(scene.execute(stream) == MSDA_ERROR_CUDA);
        std::string const message = msda_last_error();
        CAPTURE(message);
        CHECK(message.starts_with("msda_execute: "));
        CHECK(message.find(cudaGetErrorName(cudaErrorInvalidResourceHandle)) != std::string::npos);
        static_cast<void>(cudaGetLastError());
        CHECK(current_gpu() == 0);
        scene.poison();
        CHECK(scene.execute() == MSDA_SUCCESS);
        CHECK(scene.finish() == "");
      });
  CurrentGpu const second(1);
  require_cuda(cudaStreamDestroy(stream), "stream");
}

TEST_CASE("making the plan's device current fails, on two GPUs" * needs_gpus(2)) {
  TwoHandles const handles;
  TestProblem const problem = corpus_case("decoder").make(corpus_case("decoder").shape);
  Scene scene(handles.second, 1, problem, "");
  msda_status status = MSDA_SUCCESS;
  std::string failed;
  {
    CudaWatch const watch(2, cudaErrorIllegalAddress);  // asking which is current comes first
    status = scene.execute();
    failed = watch.failed();
  }
  std::string const message = msda_last_error();
  CAPTURE(message);
  CHECK(failed == "cudaSetDevice");
  CHECK(status == MSDA_ERROR_CUDA);
  CHECK(message.starts_with("msda_execute: "));
  CHECK(message.find(cudaGetErrorName(cudaErrorIllegalAddress)) != std::string::npos);
  CHECK(current_gpu() == 0);
  CHECK(scene.execute() == MSDA_SUCCESS);
  CHECK(scene.finish() == "");
}

TEST_CASE("tuning with the other device current, on two GPUs" * needs_gpus(2)) {
  TwoHandles const handles;
  for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
    CAPTURE(operation);
    ProblemShape shape = corpus_case("encoder_grid").shape;
    shape.set_dtypes(MSDA_DTYPE_F16);  // backward needs a workspace
    shape.operation = operation;
    TestProblem const problem = corpus_case("encoder_grid").make(shape);
    Scene tuned(handles.second, 1, problem, "");
    msda_tensors sample = tuned.c();
    sample.workspace = nullptr;
    sample.workspace_bytes = 0;
    PlanResult const plan = tune_plan(handles.second, shape, sample);
    REQUIRE(plan.message == "");
    CHECK(current_gpu() == 0);
    CHECK(tuned.finish() == "");
    Scene forced(handles.first, 0, problem, plan_info(plan.plan.get()).kernel_id);
    CHECK(forced.execute() == MSDA_SUCCESS);
    CHECK(forced.finish() == "");
    CHECK(tuned.bits() == forced.bits());
  }
}

#endif
