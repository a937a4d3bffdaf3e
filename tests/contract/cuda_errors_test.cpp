// Every call of the CUDA run-time library fails in turn: the status and the message say so, nothing
// is kept, and the next call is right.

#include "core/build_config.h"

#if MSDA_HAS_CUDA
#include "support/allocation_watch.h"
#include "support/case_file.h"
#include "support/cuda_watch.h"
#include "support/expected_reason.h"
#include "support/gpu_memory.h"
#include "support/gpu_tests.h"
#include "support/kernel_cases.h"
#include "support/source_path.h"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>

using namespace msda::test;

namespace {

using Names = std::set<std::string>;

// One of the caller's own making, one of a device that ran out of something, one after which
// nothing runs on the device.
constexpr cudaError_t kErrors[] = {cudaErrorInvalidResourceHandle, cudaErrorMemoryAllocation,
                                   cudaErrorLaunchOutOfResources, cudaErrorIllegalAddress};

// What the failure of a call has to look like.
struct Failure {
  msda_status status;
  std::vector<std::string> words;  // of the message
};
Failure failure_of(std::string const& function, std::string const& failed, cudaError_t error) {
  if (failed == "cudaMalloc" && error == cudaErrorMemoryAllocation) {
    return {MSDA_ERROR_OUT_OF_MEMORY, {function, "memory of CUDA device 0"}};
  }
  if (failed == "cudaDriverGetVersion") {
    return {MSDA_ERROR_CUDA, {function, "device is 0", "no CUDA driver was found"}};
  }
  if (failed == "cudaGetDeviceCount") {
    return {MSDA_ERROR_CUDA, {function, "device is 0", cudaGetErrorString(error)}};
  }
  std::vector<std::string> words = {function, cudaGetErrorString(error), cudaGetErrorName(error)};
  if (error == cudaErrorIllegalAddress) words.push_back("failed in work given to it earlier");
  return {MSDA_ERROR_CUDA, words};
}

struct Outcome {
  msda_status status = MSDA_SUCCESS;
  std::string message;
  std::string failed;     // the CUDA call that was made to fail
  std::int64_t held = 0;  // what the call has made and not given back
};

// Runs `call` with its k-th CUDA call failing.
Outcome run_failing(std::int64_t k, cudaError_t error, std::function<msda_status()> const& call) {
  CudaWatch const watch(k, error);
  Outcome outcome;
  outcome.status = call();
  if (outcome.status != MSDA_SUCCESS) outcome.message = msda_last_error();
  outcome.failed = watch.failed();
  outcome.held = watch.held();
  return outcome;
}

void check_failure(Outcome const& outcome, Failure const& expected) {
  CAPTURE(outcome.message);
  CHECK(outcome.status == expected.status);
  for (std::string const& word : expected.words) {
    CAPTURE(word);
    CHECK(outcome.message.find(word) != std::string::npos);
  }
  CHECK(outcome.held == 0);
}

// Each CUDA call of `call` in turn; `clean_up` follows a success, `check_right` every failure.
// Returns what was made to fail.
Names fail_each_cuda_call(std::string const& function, std::function<msda_status()> const& call,
                          std::function<void()> const& clean_up,
                          std::function<void()> const& check_right) {
  Names names;
  for (cudaError_t const error : kErrors) {
    for (std::int64_t k = 1;; ++k) {
      Outcome const outcome = run_failing(k, error, call);
      if (outcome.status == MSDA_SUCCESS) clean_up();
      CAPTURE(k);
      CAPTURE(outcome.failed);
      if (outcome.failed.empty()) {
        CHECK(outcome.message == "");
        break;
      }
      names.insert(outcome.failed);
      check_failure(outcome, failure_of(function, outcome.failed, error));
      if (!kGpuIsSimulated || k == 1) check_right();  // there a kernel takes as long as all else
      REQUIRE(k < 1000);
    }
  }
  return names;
}

// A problem whose plans keep a table on the device and need a workspace, one whose kernels ask for
// shared memory, one of more levels than fit a kernel's arguments.
std::vector<TestProblem> sample_problems() {
  std::vector<TestProblem> problems;
  for (const char* const name : {"encoder_grid", "kept_some", "many_levels"}) {
    for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
      ProblemShape shape = corpus_case(name).shape;
      std::vector<LevelShape> const levels = shape.levels;
      if (levels.size() > 8) shape.levels.insert(shape.levels.end(), levels.begin(), levels.end());
      shape.set_dtypes(MSDA_DTYPE_F16);
      shape.operation = operation;
      problems.push_back(corpus_case(name).make(shape));
    }
  }
  return problems;
}

// A plan, its call, and what the call gives where nothing fails.
struct Scene {
  Scene(TestHandle const& handle, TestProblem const& with, std::string const& id)
      : problem(with),
        plan(make_plan(handle, problem.shape, id)),
        buffers(problem, plan.plan.get(), 3),
        call(handle, plan.plan.get(), buffers),
        expected(run(handle, problem, id)) {
    REQUIRE(expected.failure == "");
  }

  msda_status execute() { return msda_execute(plan.plan.get(), &call.c(), nullptr); }
  void check_right() {
    call.poison();
    CHECK(execute() == MSDA_SUCCESS);
    check_results();
  }
  void check_results() {
    CHECK(call.finish() == "");
    if (std::string const id = plan_info(plan.plan.get()).kernel_id; !is_deterministic(id)) {
      CHECK(is_near(problem, id, buffers));
      return;
    }
    for (TensorRow const& row : tensor_rows()) {
      if (!row.is_result() || !row.belongs_to(problem.shape)) continue;
      CHECK(buffers.tensor(row.id).bits() == expected.bits[static_cast<std::size_t>(row.id)]);
    }
  }

  TestProblem problem;
  PlanResult plan;
  CallBuffers buffers;
  PlacedCall call;
  RunResult expected;
};

Names fail_calls_of_handle() {
  msda_handle_options const options = gpu_options();
  msda_handle* handle = nullptr;
  return fail_each_cuda_call(
      "msda_handle_create", [&] { return msda_handle_create(&options, &handle); },
      [&] { msda_handle_destroy(handle); }, [] { TestHandle const right(gpu_options()); });
}

Names fail_calls_of_plan(TestHandle const& handle, Scene& scene, std::string const& id) {
  PlanResult plan;
  return fail_each_cuda_call(
      "msda_plan_create",
      [&] {
        plan = make_plan(handle, scene.problem.shape, id);
        return plan.status;
      },
      [&] { plan.plan.reset(); }, [&] { scene.check_right(); });
}

Names fail_calls_of_restoring(TestHandle const& handle, Scene& scene) {
  std::vector<std::uint8_t> const blob = serialize(scene.plan.plan.get());
  msda_plan* plan = nullptr;
  return fail_each_cuda_call(
      "msda_plan_deserialize",
      [&] { return msda_plan_deserialize(handle.get(), blob.data(), blob.size(), &plan); },
      [&] { msda_plan_destroy(plan); }, [&] { scene.check_right(); });
}

// What a plan holds is given back whatever fails on the way.
void fail_calls_of_destroying(TestHandle const& handle, TestProblem const& problem,
                              std::string const& id) {
  bool has_failed = true;
  for (std::int64_t k = 1; has_failed; ++k) {
    CAPTURE(k);
    REQUIRE(k < 1000);
    PlanResult plan;
    std::int64_t made = 0;
    {
      CudaWatch const watch;
      plan = make_plan(handle, problem.shape, id);
      made = watch.held();
    }
    CudaWatch const watch(k, cudaErrorIllegalAddress);
    plan.plan.reset();
    CHECK(watch.held() == -made);
    has_failed = !watch.failed().empty();
  }
}

Names fail_calls_of_executing(Scene& scene) {
  cudaStream_t stream = nullptr;  // whose device is asked for; the default stream waits for it
  require_cuda(cudaStreamCreate(&stream), "stream");
  Names const failed = fail_each_cuda_call(
      "msda_execute", [&] { return msda_execute(scene.plan.plan.get(), &scene.call.c(), stream); },
      [] {}, [&] { scene.check_right(); });
  require_cuda(cudaStreamDestroy(stream), "stream");
  return failed;
}

}  // namespace

TEST_CASE("every CUDA call of the library is among those that are made to fail") {
  Names known;
  for (WatchedCall const& call : watched_calls()) known.insert(call.name);
  Names called;
  std::regex const pattern("\\b(cuda[A-Z]\\w+)\\(");
  for (const char* const folder : {"src", "kernels"}) {
    for (auto const& file : std::filesystem::recursive_directory_iterator(source_path(folder))) {
      if (!file.is_regular_file()) continue;
      std::stringstream text;
      text << std::ifstream(file.path()).rdbuf();
      std::string const source = text.str();
      std::sregex_iterator const end;
      for (std::sregex_iterator match(source.begin(), source.end(), pattern); match != end;
           ++match) {
        called.insert((*match)[1]);
      }
    }
  }
  // These say what went wrong and cannot fail themselves.
  called.erase("cudaGetErrorString");
  called.erase("cudaGetErrorName");
  CHECK(called == known);
}

TEST_CASE("every CUDA call fails in turn, on the GPU" * needs_gpu()) {
  Names failed = fail_calls_of_handle();
  TestHandle const handle(gpu_options());
  for (TestProblem const& problem : sample_problems()) {
    for (std::string const& id : accepting_kernels(handle, problem.shape)) {
      std::string const what = id + ": " + problem.shape.describe();
      CAPTURE(what);
      Scene scene(handle, problem, id);
      failed.merge(fail_calls_of_plan(handle, scene, id));
      failed.merge(fail_calls_of_restoring(handle, scene));
      failed.merge(fail_calls_of_executing(scene));
      fail_calls_of_destroying(handle, problem, id);
      scene.check_right();
    }
  }
  // Events are the tuner's; no other device is made current, and where there is none no call asks
  // whose a stream is.
  Names elsewhere = {"cudaSetDevice"};
  if (gpu_count() == 1) elsewhere.insert({"cudaStreamIsCapturing", "cudaStreamGetDevice"});
  Names expected;
  for (WatchedCall const& call : watched_calls()) {
    std::string const name = call.name;
    bool const is_elsewhere = name.starts_with("cudaEvent") || elsewhere.contains(name);
    if (call.can_fail && !is_elsewhere) expected.insert(name);
  }
  CHECK(failed == expected);
}

namespace {

// What the library says while it tunes.
struct Listener {
  static void listen(void* user, msda_log_level, const char* message, std::size_t length) {
    static_cast<Listener*>(user)->text.append(message, length);
  }
  std::string text;
};

// A kernel that fails is left out, but not the heuristic's.
void fail_calls_of_tuning(TestProblem const& problem, cudaError_t error, Names& failed) {
  constexpr double kBudgetMs = 20;
  Listener listener;
  msda_handle_options options = gpu_options();
  options.log_fn = Listener::listen;
  options.log_user = &listener;
  options.log_level = MSDA_LOG_WARN;
  TestHandle const handle(options);
  Scene scene(handle, problem, "");
  ProblemCopy const view = problem.shape.copy();
  msda_tensors sample = scene.call.c();
  sample.workspace = nullptr;
  sample.workspace_bytes = 0;
  msda_plan* plan = nullptr;
  auto const tune = [&] {
    return msda_plan_tune(handle.get(), &view.c, nullptr, &sample, nullptr, kBudgetMs, &plan);
  };
  // There are thousands: each of the first ones, then some.
  for (std::int64_t k = 1;; k += 1 + k / 32) {
    CAPTURE(k);
    scene.call.poison();
    listener.text.clear();
    Outcome const outcome = run_failing(k, error, [&] {
      plan = nullptr;
      msda_status const status = tune();
      msda_plan_destroy(plan);
      return status;
    });
    CAPTURE(outcome.failed);
    CHECK(outcome.held == 0);
    if (outcome.failed.empty()) {
      CHECK(outcome.message == "");
      return;
    }
    failed.insert(outcome.failed);
    Failure const expected = failure_of("msda_plan_tune", outcome.failed, error);
    if (outcome.status == MSDA_SUCCESS) {
      // Giving back, the device need not be made current, and the wait before the first run only
      // keeps earlier work out of the budget.
      bool const is_said = listener.text.find("is left out: ") != std::string::npos &&
                           listener.text.find(expected.words.back()) != std::string::npos;
      CHECK((is_said || outcome.failed == "cudaGetDevice" ||
             outcome.failed == "cudaStreamSynchronize"));
      CHECK(scene.call.finish() == "");
      CHECK(scene.buffers.check_written() == "");
    } else {
      check_failure(outcome, expected);
    }
    scene.check_right();
    REQUIRE(k < 100'000);
  }
}

}  // namespace

TEST_CASE("every CUDA call of tuning fails in turn, on the GPU" * needs_gpu()) {
  Names failed;
  TestProblem const forward = sample_problems()[0], backward = sample_problems()[1];
  for (cudaError_t const error : kErrors) fail_calls_of_tuning(backward, error, failed);
  fail_calls_of_tuning(forward, cudaErrorLaunchOutOfResources, failed);
  for (std::string const name :
       {"cudaMalloc", "cudaLaunchKernelExC", "cudaStreamIsCapturing", "cudaEventCreate",
        "cudaEventRecord", "cudaEventSynchronize", "cudaEventElapsedTime"}) {
    CAPTURE(name);
    CHECK(failed.contains(name));
  }
}

TEST_CASE("tuning gives no memory back that kernels may be using, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  ProblemShape shape = corpus_case("encoder_grid").shape;
  shape.set_dtypes(MSDA_DTYPE_F64);  // whose only kernel needs a workspace
  shape.operation = MSDA_BACKWARD;
  TestProblem const problem = corpus_case("encoder_grid").make(shape);
  Scene scene(handle, problem, "");
  ProblemCopy const view = problem.shape.copy();
  msda_tensors sample = scene.call.c();
  sample.workspace = nullptr;
  sample.workspace_bytes = 0;
  int after_launches = 0;
  for (std::int64_t k = 1;; ++k) {
    CAPTURE(k);
    CudaWatch const watch(k, cudaErrorLaunchOutOfResources);
    msda_plan* plan = nullptr;
    msda_status const status =
        msda_plan_tune(handle.get(), &view.c, nullptr, &sample, nullptr, 1, &plan);
    msda_plan_destroy(plan);
    if (watch.failed().empty()) break;
    if (status == MSDA_SUCCESS) {  // what tuning can do without, as above
      REQUIRE((watch.failed() == "cudaGetDevice" || watch.failed() == "cudaStreamSynchronize"));
      continue;
    }
    auto const& calls = watch.calls();
    auto const last_launch = std::find(calls.rbegin(), calls.rend(), "cudaLaunchKernelExC");
    auto const last_wait = std::find_if(calls.rbegin(), calls.rend(), [](std::string const& name) {
      return name == "cudaStreamSynchronize" || name == "cudaEventSynchronize";
    });
    auto const last_free = std::find(calls.rbegin(), calls.rend(), "cudaFree");
    if (last_launch == calls.rend()) continue;
    ++after_launches;
    CHECK(last_free < last_wait);
    CHECK(last_wait < last_launch);
  }
  CHECK(after_launches >= 4);  // the launches, the event behind them, waiting for it, its time
}

TEST_CASE("executing launches and does nothing else, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for_kernels_and_cases(handle,
                        {"encoder_grid", "decoder", "many_points", "many_levels", "odd_channels"},
                        [&](TestProblem const& problem, std::string const& id) {
                          PlanResult const plan = make_plan(handle, problem.shape, id);
                          CallBuffers buffers(problem, plan.plan.get(), 0);
                          PlacedCall call(handle, plan.plan.get(), buffers);
                          msda_status status = MSDA_SUCCESS;
                          bool allocated = false;
                          CudaWatch const watch;
                          {
                            AllocationFault const fault(1);
                            status = msda_execute(plan.plan.get(), &call.c(), nullptr);
                            allocated = fault.happened();
                          }
                          Names calls(watch.calls().begin(), watch.calls().end());
                          CHECK(status == MSDA_SUCCESS);
                          CHECK(!allocated);
                          CHECK(calls.erase("cudaGetDevice") == 1);
                          CHECK(calls.erase("cudaLaunchKernelExC") == 1);
                          calls.erase("cudaMemsetAsync");
                          CHECK(calls == Names());
                          CHECK(call.finish() == "");
                        });
}

// ---- errors that CUDA itself reports
// ---------------------------------------------------------------------------------

namespace {

struct Capture {
  // `flags` of the stream: one that is blocking waits for the default stream, and it for that one.
  Capture(unsigned flags, cudaStreamCaptureMode mode) {
    require_cuda(cudaStreamCreateWithFlags(&stream, flags), "stream");
    require_cuda(cudaStreamBeginCapture(stream, mode), "begin capture");
  }
  // What broke the capture is not of interest here.
  ~Capture() {
    cudaGraph_t graph = nullptr;
    static_cast<void>(cudaStreamEndCapture(stream, &graph));
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaStreamDestroy(stream);
    static_cast<void>(cudaGetLastError());
  }
  Capture(Capture const&) = delete;
  cudaStream_t stream = nullptr;
};

}  // namespace

TEST_CASE("the default stream beside a capture is refused, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  TestProblem const problem = sample_problems()[0];
  Scene scene(handle, problem, "");
  ProblemCopy const view = problem.shape.copy();
  scene.call.poison();
  msda_plan* plan = nullptr;
  msda_status tuned = MSDA_SUCCESS, executed = MSDA_SUCCESS;
  std::string of_tuning, of_executing;
  {
    Capture const capture(cudaStreamDefault, cudaStreamCaptureModeThreadLocal);
    tuned = msda_plan_tune(handle.get(), &view.c, nullptr, &scene.call.c(), nullptr, 10, &plan);
    of_tuning = msda_last_error();
    executed = scene.execute();
    of_executing = msda_last_error();
  }
  CAPTURE(of_tuning);
  CAPTURE(of_executing);
  CHECK(tuned == MSDA_ERROR_INVALID_ARGUMENT);
  CHECK(of_tuning.find("must not be capturing a graph") != std::string::npos);
  CHECK(plan == nullptr);
  CHECK(executed == MSDA_ERROR_CUDA);
  CHECK(of_executing.find(cudaGetErrorName(cudaErrorStreamCaptureImplicit)) != std::string::npos);
  CHECK(scene.call.finish() == "");
  CHECK(scene.buffers.check_untouched() == "");
  scene.check_right();
}

TEST_CASE("a plan with tables beside a global capture is refused, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  TestProblem const problem = sample_problems()[4];  // of many levels
  Scene scene(handle, problem, "");
  PlanResult refused;
  std::int64_t held = 0;
  {
    Capture const capture(cudaStreamNonBlocking, cudaStreamCaptureModeGlobal);
    CudaWatch const watch;
    refused = make_plan(handle, problem.shape, "");
    held = watch.held();
  }
  CAPTURE(refused.message);
  CHECK(refused.status == MSDA_ERROR_CUDA);
  CHECK(refused.message.find("msda_plan_create: ") == 0);
  CHECK(refused.message.find("cudaError") != std::string::npos);
  CHECK(held == 0);
  CHECK(make_plan(handle, problem.shape, "").message == "");
  scene.check_right();
}

TEST_CASE("a workspace larger than the device, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  ProblemShape shape;
  shape.set_dtypes(MSDA_DTYPE_F16);
  shape.levels = {{32768, 32768, 1}};
  shape.head_count = shape.head_dim = 8;  // sums of 2^38 bytes
  shape.operation = MSDA_BACKWARD;
  // No buffer is touched, but the values, which are many, must come last in memory.
  std::vector<GpuBuffer> buffers;
  for (int i = 0; i < 6; ++i) buffers.emplace_back(4096, nullptr);
  std::vector<void*> addresses;
  for (GpuBuffer const& buffer : buffers) addresses.push_back(buffer.data());
  std::sort(addresses.begin(), addresses.end());
  msda_tensors tensors{};
  tensors.struct_size = sizeof(tensors);
  tensors.coord = addresses[0];
  tensors.weight = addresses[1];
  tensors.grad_output = addresses[2];
  tensors.grad_coord = addresses[3];
  tensors.grad_weight = addresses[4];
  tensors.value = addresses[5];
  ProblemCopy const view = shape.copy();
  msda_plan* plan = nullptr;
  PlanResult const chosen = make_plan(handle, shape, "");
  std::int64_t const bytes =
      static_cast<std::int64_t>(plan_info(chosen.plan.get()).workspace_bytes);
  CudaWatch const watch;
  msda_status const status =
      msda_plan_tune(handle.get(), &view.c, nullptr, &tensors, nullptr, 10, &plan);
  std::string const message = msda_last_error();
  CAPTURE(message);
  CHECK(status == MSDA_ERROR_OUT_OF_MEMORY);
  CHECK(bytes >= std::int64_t{1} << 38);
  CHECK(message == fmt::format("msda_plan_tune: {} bytes of memory of CUDA device 0 could not be "
                               "allocated",
                               bytes));
  CHECK(plan == nullptr);
  CHECK(watch.held() == 0);
  static_cast<void>(cudaGetLastError());
  for (GpuBuffer const& buffer : buffers) CHECK(buffer.surroundings_intact());
}

#endif
