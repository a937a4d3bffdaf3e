// What only a GPU has: streams, graphs, devices, memory of two kinds.

#include "support/case_file.h"
#include "support/empty_kernel.h"
#include "support/expected_reason.h"
#include "support/gpu_memory.h"
#include "support/gpu_tests.h"
#include "support/kernel_cases.h"
#include "support/runner.h"
#include "support/tolerance.h"
#include "support/tuning_calls.h"

#include "core/build_config.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#if MSDA_HAS_CUDA
#include <cuda_runtime_api.h>
#if MSDA_TEST_SIMULATED
#include "cuda/sim_control.h"
#endif

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

using namespace msda::test;

namespace {

struct Stream {
  Stream() { require_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream"); }
  ~Stream() { cudaStreamDestroy(stream); }
  cudaStream_t stream = nullptr;
};

// A case with data, its buffers, and the results of a call that is like any other. It asks for the
// attention weights, too, where there are such.
struct Scene {
  Scene(TestHandle const& handle, TestProblem const& problem, std::string const& id)
      : plan(make_plan(handle, problem.shape, id)), buffers(problem, plan.plan.get(), 3) {
    ProblemShape const& shape = problem.shape;
    if (shape.fused() && !shape.backward()) buffers.ask_for(TensorId::kAttention);
  }

  std::vector<std::vector<std::uint64_t>> bits() {
    std::vector<std::vector<std::uint64_t>> all;
    for (TensorRow const& row : tensor_rows()) {
      if (row.is_result() || row.is_extra()) all.push_back(buffers.tensor(row.id).bits());
    }
    return all;
  }

  PlanResult plan;
  CallBuffers buffers;
};

// Captured by the strictest mode, in which the driver refuses whatever might block.
cudaGraphExec_t capture(Stream const& s, msda_plan const* plan, msda_tensors const& tensors) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  require_cuda(cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeGlobal), "begin capture");
  msda_status const status = msda_execute(plan, &tensors, s.stream);
  std::string const message = status == MSDA_SUCCESS ? "" : msda_last_error();
  require_cuda(cudaStreamEndCapture(s.stream, &graph), "end capture");
  REQUIRE(message == "");
  require_cuda(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
  cudaGraphDestroy(graph);
  return executable;
}

bool launch(cudaGraphExec_t graph, Stream const& s) {
  return cudaGraphLaunch(graph, s.stream) == cudaSuccess;
}

// Hashes of `count` calls of the scene's plan; none where one failed, as threads must not throw.
std::vector<std::uint64_t> hashes_of_calls(Scene const& scene, GpuCall& call, Stream const& s,
                                           int count) {
  try {
    return call.hash_runs(count, s.stream, [&] {
      return msda_execute(scene.plan.plan.get(), &call.c(), s.stream) == MSDA_SUCCESS;
    });
  } catch (std::runtime_error const&) {
    return {};
  }
}

// The hash of one call, whose results the scene then has.
std::uint64_t hash_of_call(Scene& scene, Stream const& s) {
  GpuCall call(scene.plan.plan.get(), scene.buffers);
  std::vector<std::uint64_t> const hashes = hashes_of_calls(scene, call, s, 1);
  REQUIRE(hashes.size() == 1);
  REQUIRE(call.finish() == "");
  REQUIRE(scene.buffers.check_written() == "");
  return hashes.front();
}

constexpr int kReplays = gpu_repeats(1000);
constexpr int kCallsOfThread = gpu_repeats(20);

}  // namespace

TEST_CASE("hashes tell runs apart that differ in a bit or write nothing, on the GPU" *
          needs_gpu()) {
  TestHandle const handle(gpu_options());
  Stream const s;
  TestProblem const problem = corpus_case("decoder").make(corpus_case("decoder").shape);
  Scene scene(handle, problem, "");
  std::uint64_t const right = hash_of_call(scene, s);
  HostTensor const& result = scene.buffers.tensor(TensorId::kOutput);
  auto const size = static_cast<std::size_t>(result.layout().span()) * sizeof(float);
  auto const* const bytes = static_cast<const unsigned char*>(result.data());
  int const first = bytes[0], last = bytes[size - 1];
  GpuCall call(scene.plan.plan.get(), scene.buffers);
  auto* const output = static_cast<unsigned char*>(call.c().output);
  int run = 0;
  std::vector<std::uint64_t> const hashes = call.hash_runs(5, s.stream, [&] {
    if (++run == 5) return true;  // writes nothing
    bool good = msda_execute(scene.plan.plan.get(), &call.c(), s.stream) == MSDA_SUCCESS;
    if (run == 3) good = good && cudaMemsetAsync(output, first ^ 1, 1, s.stream) == cudaSuccess;
    if (run == 4)
      good = good && cudaMemsetAsync(output + size - 1, last ^ 1, 1, s.stream) == cudaSuccess;
    return good;
  });
  CHECK(call.finish() == "");
  CHECK(hashes[0] == right);
  CHECK(hashes[1] == right);
  for (std::size_t const other : {2, 3, 4}) CHECK(hashes[other] != right);
}

TEST_CASE("the first call of a kernel inside a capture, and its replays, on the GPU" *
          needs_gpu()) {
  TestHandle const handle(gpu_options());
  Stream const s;
  for_kernels_and_cases(
      handle, {"decoder", "dfine"}, [&](TestProblem const& problem, std::string const& id) {
        Scene captured(handle, problem, id);
        GpuCall call(captured.plan.plan.get(), captured.buffers);
        cudaGraphExec_t const graph = capture(s, captured.plan.plan.get(), call.c());
        // A capture only records.
        require_cuda(cudaStreamSynchronize(s.stream), "waiting");
        std::vector<std::uint64_t> const replays =
            call.hash_runs(kReplays, s.stream, [&] { return launch(graph, s); });
        CHECK(call.finish() == "");
        cudaGraphExecDestroy(graph);
        CHECK(captured.buffers.check_written() == "");
        if (!is_deterministic(id)) {
          CHECK(is_near(problem, id, captured.buffers));
          return;
        }
        Scene plain(handle, problem, id);
        CHECK(hash_of_call(plain, s) == replays.front());
        CHECK(replays == std::vector<std::uint64_t>(kReplays, replays.front()));
        CHECK(captured.bits() == plain.bits());
      });
}

// Such a thread has no context of the device yet, which functions of the driver need.
TEST_CASE("a plan and a call that are a thread's first use of CUDA, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  Stream const s;
  for_kernels_and_cases(
      handle, {"decoder", "bev_heads"}, [&](TestProblem const& problem, std::string const& id) {
        std::string planned = "not run";
        std::thread([&] { planned = make_plan(handle, problem.shape, id).message; }).join();
        CHECK(planned == "");
        Scene scene(handle, problem, id);
        GpuCall call(scene.plan.plan.get(), scene.buffers);
        std::string called = "not run";
        std::thread([&] {
          bool const good =
              msda_execute(scene.plan.plan.get(), &call.c(), s.stream) == MSDA_SUCCESS;
          called = good ? "" : msda_last_error();
        }).join();
        CHECK(called == "");
        CHECK(call.finish() == "");
        CHECK(is_near(problem, id, scene.buffers));
      });
}

TEST_CASE("one plan on four threads and streams, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for_kernels_and_cases(
      handle, {"decoder", "bev_heads"}, [&](TestProblem const& problem, std::string const& id) {
        Stream const alone;
        Scene first(handle, problem, id);
        std::vector<std::uint64_t> const expected(kCallsOfThread, hash_of_call(first, alone));
        std::vector<std::thread> threads;
        std::vector<int> wrong(4, -1);
        for (std::size_t t = 0; t < wrong.size(); ++t) {
          threads.emplace_back([&, t] {
            Stream const s;
            Scene mine(handle, problem, id);
            GpuCall call(first.plan.plan.get(), mine.buffers);
            bool const same = hashes_of_calls(first, call, s, kCallsOfThread) == expected;
            bool const finished = call.finish().empty();
            bool const right = is_deterministic(id) ? same && mine.bits() == first.bits()
                                                    : is_near(problem, id, mine.buffers);
            wrong[t] = finished && right ? 0 : 1;
          });
        }
        for (std::thread& thread : threads) thread.join();
        CHECK(wrong == std::vector<int>(4, 0));
      });
}

TEST_CASE("the plan's device, whichever is current, on two GPUs" * needs_gpus(2)) {
  int count = 0;
  require_cuda(cudaGetDeviceCount(&count), "device count");
  TestProblem const problem = corpus_case("decoder").make(corpus_case("decoder").shape);
  std::vector<std::vector<std::uint64_t>> expected;
  for (int device = 0; device < count; ++device) {
    TestHandle const handle(gpu_options(device));
    require_cuda(cudaSetDevice(device), "set device");
    Scene scene(handle, problem, "");
    GpuCall call(scene.plan.plan.get(), scene.buffers);
    require_cuda(cudaSetDevice((device + 1) % count), "set device");
    CHECK(msda_execute(scene.plan.plan.get(), &call.c(), nullptr) == MSDA_SUCCESS);
    int current = -1;
    require_cuda(cudaGetDevice(&current), "current device");
    CHECK(current == (device + 1) % count);
    require_cuda(cudaSetDevice(device), "set device");
    CHECK(call.finish() == "");
    CHECK(scene.buffers.check_written() == "");
    if (device == 0) expected = scene.bits();
    CHECK(scene.bits() == expected);
  }
  require_cuda(cudaSetDevice(0), "set device");
}

TEST_CASE("a device beyond the last is refused, on the GPU" * needs_gpu()) {
  int count = 0;
  require_cuda(cudaGetDeviceCount(&count), "device count");
  msda_handle_options const beyond = gpu_options(count);
  msda_handle* none = nullptr;
  CHECK(msda_handle_create(&beyond, &none) == MSDA_ERROR_INVALID_ARGUMENT);
  CHECK(std::string(msda_last_error()).find(fmt::format("must be 0 to {}", count - 1)) !=
        std::string::npos);
}

TEST_CASE("memory of the wrong kind is refused, on the GPU" * needs_gpu()) {
  TestProblem const problem = corpus_case("decoder").make(corpus_case("decoder").shape);
  TestHandle const gpu(gpu_options());
  TestHandle const cpu;
  Scene on_gpu(gpu, problem, "");
  Scene on_cpu(cpu, problem, "");
  GpuCall call(on_gpu.plan.plan.get(), on_gpu.buffers);
  int reads_host_memory = 0;
  require_cuda(cudaDeviceGetAttribute(&reads_host_memory, cudaDevAttrPageableMemoryAccess, 0),
               "attribute");
  for (TensorRow const& row : tensor_rows()) {
    if (!row.belongs_to(problem.shape) || row.id == TensorId::kValueScale) continue;
    CAPTURE(row.name);
    msda_tensors mixed = call.c();
    set_pointer(mixed, row.id, on_cpu.buffers.tensor(row.id).data());
    if (reads_host_memory == 0) {
      CHECK(msda_execute(on_gpu.plan.plan.get(), &mixed, nullptr) == MSDA_ERROR_INVALID_ARGUMENT);
      CHECK(std::string(msda_last_error()).find("tensors." + std::string(row.name)) !=
            std::string::npos);
    }
    mixed = on_cpu.buffers.c();
    GpuBuffer const device(4096, nullptr);
    set_pointer(mixed, row.id, device.data());
    CHECK(msda_execute(on_cpu.plan.plan.get(), &mixed, nullptr) == MSDA_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(msda_last_error()).find("tensors." + std::string(row.name)) !=
          std::string::npos);
    CHECK(on_cpu.buffers.check_untouched() == "");
  }
  CHECK(call.finish() == "");
  CHECK(on_gpu.buffers.check_untouched() == "");
  // And the next good calls are good.
  CHECK(execute(on_gpu.plan.plan.get(), on_gpu.buffers).failure == "");
  CHECK(msda_execute(on_cpu.plan.plan.get(), &on_cpu.buffers.c(), nullptr) == MSDA_SUCCESS);
}

TEST_CASE("fewer multiprocessors change no bit, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for_kernels_and_cases(
      handle, {"decoder", "bev_heads", "kept_some", "rounds_32", "rounds_32_few_f", "rounds_64"},
      [&](TestProblem const& problem, std::string const& id) {
        Scene whole(handle, problem, id);
        REQUIRE(execute(whole.plan.plan.get(), whole.buffers).failure == "");
        for (std::int32_t const limit : {1, 3, 7, 100000}) {
          CAPTURE(limit);
          PlanResult const part = make_plan(handle, problem.shape, id, limit);
          if (!keeps_sm_limit(id, limit)) {
            CHECK(part.status == MSDA_ERROR_UNSUPPORTED);
            CHECK(part.message.find("does not keep to sm_count_limit") != std::string::npos);
            continue;
          }
          REQUIRE(part.message == "");
          CallBuffers buffers(problem, part.plan.get(), 3);
          REQUIRE(execute(part.plan.get(), buffers).failure == "");
          for (TensorRow const& row : tensor_rows()) {
            if (!row.is_result() || !row.belongs_to(problem.shape)) continue;
            CHECK(buffers.tensor(row.id).bits() == whole.buffers.tensor(row.id).bits());
          }
        }
      });
}

namespace {

// Values far behind the end of what is allocated for them: the kernel fails on the device. They
// come last in memory, as tensors must not overlap.
void break_device(TestHandle const& handle, GpuCall const& good) {
  ProblemShape shape = corpus_case("decoder").shape;
  shape.levels = {{30000, 30000, 1}};
  PlanResult const plan = make_plan(handle, shape, "");
  REQUIRE(plan.message == "");
  std::vector<GpuBuffer> buffers;
  msda_tensors tensors = good.c();
  while (tensors.value < tensors.coord || tensors.value < tensors.weight ||
         tensors.value < tensors.output) {
    buffers.emplace_back(std::size_t{4} << 20, nullptr);
    tensors.value = buffers.back().data();
  }
#if MSDA_TEST_SIMULATED  // where such a read ends the process
  simt::cuda::inject_kernel_failure("", 1, cudaErrorIllegalAddress);
#endif
  REQUIRE(msda_execute(plan.plan.get(), &tensors, nullptr) == MSDA_SUCCESS);
  REQUIRE(cudaDeviceSynchronize() != cudaSuccess);
}

}  // namespace

// Nothing runs on that device again in this process, so the test below gives it one of its own.
TEST_CASE("a plan on a device that has failed" * doctest::skip()) {
  TestHandle const handle(gpu_options());
  Scene scene(handle, corpus_case("decoder").make(corpus_case("decoder").shape), "");
  GpuCall call(scene.plan.plan.get(), scene.buffers);
  break_device(handle, call);
  CHECK(msda_execute(scene.plan.plan.get(), &call.c(), nullptr) == MSDA_ERROR_CUDA);
  // Which error it is differs: mostly cudaErrorIllegalAddress.
  std::string const message = msda_last_error();
  CAPTURE(message);
  CHECK(message.find("the device failed in work given to it earlier") != std::string::npos);
}

TEST_CASE("a failure of earlier work is reported, on the GPU" * needs_gpu()) {
  std::string const program = std::filesystem::read_symlink("/proc/self/exe");
  std::string const command = fmt::format(
      "'{}' --no-skip --test-case='a plan on a device that has failed' >/dev/null", program);
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("tuning keeps its promises, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  Stream const s;
  TuneRequest request;
  request.stream = s.stream;
  for (const char* const name : {"encoder_grid", "bev_heads", "dfine", "bordered"}) {
    for (ProblemShape shape : corpus_case(name).shapes()) {
      for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
        shape.operation = operation;
        CAPTURE(shape.describe());
        if (accepting_kernels(handle, shape).empty()) continue;
        TestProblem const problem = corpus_case(name).make(shape);
        Scene tuned(handle, problem, "");
        GpuCall call(tuned.plan.plan.get(), tuned.buffers);
        // Every kernel that takes the problem, with the library's own workspace.
        msda_tensors sample = call.c();
        sample.workspace = nullptr;
        sample.workspace_bytes = 0;
        PlanResult const plan = tune_plan(handle, shape, sample, request);
        REQUIRE(plan.message == "");
        CHECK(call.finish() == "");
        CHECK(tuned.buffers.check_written() == "");
        std::string const id = plan_info(plan.plan.get()).kernel_id;
        Scene forced(handle, problem, id);
        CHECK(execute(forced.plan.plan.get(), forced.buffers).failure == "");
        CHECK(tuned.bits() == forced.bits());
        PlanResult const again = make_plan(handle, shape, plan_options(MSDA_PLAN_TUNED));
        REQUIRE(again.message == "");
        CHECK(plan_info(again.plan.get()).kernel_id == id);
      }
    }
  }
}

TEST_CASE("tuning is refused while the stream is captured, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  TestProblem const problem = corpus_case("decoder").make(corpus_case("decoder").shape);
  Scene scene(handle, problem, "");
  GpuCall call(scene.plan.plan.get(), scene.buffers);
  Stream const s;
  TuneRequest on_stream;
  on_stream.stream = s.stream;
  require_cuda(cudaStreamBeginCapture(s.stream, cudaStreamCaptureModeThreadLocal), "begin capture");
  PlanResult const captured = tune_plan(handle, problem.shape, call.c(), on_stream);
  cudaGraph_t graph = nullptr;
  require_cuda(cudaStreamEndCapture(s.stream, &graph), "end capture");  // it was left alone
  cudaGraphDestroy(graph);
  CHECK(captured.status == MSDA_ERROR_INVALID_ARGUMENT);
  CHECK(captured.message.find("must not be capturing a graph") != std::string::npos);
  CHECK(call.finish() == "");
  CHECK(scene.buffers.check_untouched() == "");
  CHECK(tune_plan(handle, problem.shape, call.c(), on_stream).message == "");
  CHECK(call.finish() == "");
  CHECK(scene.buffers.check_written() == "");
}

// What one of `calls` calls of fn costs the host, in microseconds, where nothing runs before them.
template <typename Fn>
double host_us_of(Fn fn, int calls) {
  require_cuda(cudaDeviceSynchronize(), "waiting");
  bool good = true;
  auto const start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) good = fn() && good;
  std::chrono::duration<double, std::micro> const spent = std::chrono::steady_clock::now() - start;
  REQUIRE(good);
  return spent.count() / calls;
}

double median_of(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// What the library adds to launching a kernel: looking at the arguments, and the launch's
// parameters. 0.44 to 0.48 us were measured.
constexpr double kMaxHostUs = 0.7;

TEST_CASE("a call costs the host little more than launching a kernel, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  ProblemShape const shape = corpus_case("decoder").shape;
  Scene scene(handle, corpus_case("decoder").make(shape), "");
  const msda_plan* const plan = scene.plan.plan.get();
  GpuCall call(plan, scene.buffers);
  msda_tensors tensors = call.c();
  tensors.attention = nullptr;  // which takes a launch of its own
  Stream const s;
  for (int const calls : {20, 200}) {
    for (cudaStream_t const stream : {cudaStream_t{nullptr}, s.stream}) {
      // In turns: what launching costs changes with the machine and from one moment to the next.
      std::vector<double> ours, empty, added;
      for (int round = 0; round < 60; ++round) {
        ours.push_back(host_us_of(
            [&] { return msda_execute(plan, &tensors, stream) == MSDA_SUCCESS; }, calls));
        empty.push_back(host_us_of([&] { return launch_empty_kernel(stream); }, calls));
        added.push_back(ours.back() - empty.back());
      }
      double const more = median_of(added);
      fmt::print(
          "[gpu    ] msda_execute takes {:.2f} us of the host in {} calls into {} stream, "
          "launching an empty kernel {:.2f}; {:.2f} more, at most {:.2f} allowed\n",
          median_of(ours), calls, stream == nullptr ? "the default" : "another", median_of(empty),
          more, kMaxHostUs);
      CHECK(more < kMaxHostUs);
    }
  }
  CHECK(call.finish() == "");
}

#endif
