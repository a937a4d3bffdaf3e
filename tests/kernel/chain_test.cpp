// Calls behind each other in a stream and in a graph, where each kernel may begin while the one
// before still runs: what a call computes is what the next one reads, and every third one writes
// what the first one read. Every other call of a fused forward asks for the attention weights,
// whose kernel runs before its own.

#include "support/expected_reason.h"
#include "support/gpu_memory.h"
#include "support/gpu_tests.h"
#include "support/random_problem.h"
#include "support/runner.h"

#include "core/build_config.h"

#include <doctest/doctest.h>

#if MSDA_HAS_CUDA
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

using namespace msda::test;

namespace {

constexpr int kBuffers = 3;
constexpr int kCalls = 2 * kBuffers;

// As many queries as tokens, so that the value is as large as the output, and their gradients.
ProblemShape chain_shape(msda_dtype dtype, msda_operation operation, std::int32_t reference_dim) {
  ProblemShape shape;
  shape.levels = {{2, 3, 4}, {2, 2, 4}};
  shape.query_count = shape.token_count();
  shape.head_count = 8;
  shape.head_dim = 32;
  shape.reference_dim = reference_dim;
  shape.set_dtypes(dtype);
  shape.operation = operation;
  return shape;
}

struct Results {
  std::vector<std::vector<std::uint64_t>> bits;
  std::vector<std::vector<double>> values;
};

// Kernels whose bits differ from run to run: six calls behind each other make more of a rounding
// than one; a call that begins too early reads other numbers altogether.
bool are_near(Results const& a, Results const& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    double largest = 0, difference = 0;
    for (std::size_t j = 0; j < a.values[i].size(); ++j) {
      largest = std::max(largest, std::fabs(a.values[i][j]));
      difference = std::max(difference, std::fabs(a.values[i][j] - b.values[i][j]));
    }
    if (!(difference <= 0.02 * largest)) return false;
  }
  return true;
}

class Chain {
 public:
  Chain(TestHandle const& handle, TestProblem const& problem, std::string const& id)
      : backward_(problem.shape.backward()),
        plan_(make_plan(handle, problem.shape, id)),
        host_(problem, plan_.plan.get(), 0),
        call_(plan_.plan.get(), ask_for_attention(host_, problem.shape)) {
    require_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    HostTensor const& first = host_.tensor(from());
    auto const bytes =
        static_cast<std::size_t>(first.layout().span()) * element_bytes(first.layout().dtype);
    for (int i = 0; i < kBuffers; ++i) {
      buffers_.emplace_back(bytes, nullptr);
      buffers_.back().copy_from(first.data());
    }
  }
  ~Chain() { cudaStreamDestroy(stream_); }
  Chain(Chain const&) = delete;

  // Call `i` of the chain.
  void enqueue(int i) {
    msda_tensors tensors = call_.c();
    set_pointer(tensors, from(), buffer(i));
    set_pointer(tensors, to(), buffer(i + 1));
    if (i % 2 == 0) tensors.attention = nullptr;
    REQUIRE(msda_execute(plan_.plan.get(), &tensors, stream_) == MSDA_SUCCESS);
  }
  void wait() const { require_cuda(cudaStreamSynchronize(stream_), "waiting"); }

  void run_one_by_one() {
    for (int i = 0; i < kCalls; ++i) {
      enqueue(i);
      wait();
    }
  }
  void run_in_stream() {
    for (int i = 0; i < kCalls; ++i) enqueue(i);
    wait();
  }
  // Half of the calls are captured, and their graph is launched twice.
  void run_in_graph() {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    require_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "begin capture");
    for (int i = 0; i < kBuffers; ++i) enqueue(i);
    require_cuda(cudaStreamEndCapture(stream_, &graph), "end capture");
    require_cuda(cudaGraphInstantiate(&executable, graph, 0), "instantiate");
    for (int i = 0; i < kCalls / kBuffers; ++i) {
      require_cuda(cudaGraphLaunch(executable, stream_), "launching the graph");
    }
    wait();
    cudaGraphExecDestroy(executable);
    cudaGraphDestroy(graph);
  }

  // The three buffers, and the results that every call writes anew.
  Results results() {
    Results all;
    CHECK(call_.finish() == "");
    for (TensorRow const& row : tensor_rows()) {
      if (!(row.is_result() || row.is_extra()) || row.id == to()) continue;
      all.bits.push_back(host_.tensor(row.id).bits());
      all.values.push_back(host_.tensor(row.id).values());
    }
    HostTensor copy(host_.tensor(from()).layout());
    for (GpuBuffer const& buffer : buffers_) {
      CHECK(buffer.surroundings_intact());
      buffer.copy_to(copy.data());
      all.bits.push_back(copy.bits());
      std::vector<double> const values = copy.values();
      all.values.push_back(values);
      CHECK(std::ranges::all_of(values, [](double x) { return std::isfinite(x); }));
      CHECK(std::ranges::count(values, 0.0) < static_cast<std::ptrdiff_t>(values.size()) / 2);
    }
    return all;
  }

 private:
  static CallBuffers& ask_for_attention(CallBuffers& buffers, ProblemShape const& shape) {
    if (shape.fused() && !shape.backward()) buffers.ask_for(TensorId::kAttention);
    return buffers;
  }
  TensorId from() const { return backward_ ? TensorId::kGradOutput : TensorId::kValue; }
  TensorId to() const { return backward_ ? TensorId::kGradValue : TensorId::kOutput; }
  void* buffer(int i) const { return buffers_[static_cast<std::size_t>(i % kBuffers)].data(); }

  bool backward_;
  PlanResult plan_;
  CallBuffers host_;
  GpuCall call_;
  std::vector<GpuBuffer> buffers_;
  cudaStream_t stream_ = nullptr;
};

void check_chains(TestHandle const& handle, ProblemShape const& shape, std::uint64_t seed) {
  DataKind kind;
  kind.low = 0.0;
  kind.high = 1.0;
  Rng rng(seed);
  TestProblem const problem = fill_problem(shape, kind, rng);
  for (std::string const& id : accepting_kernels(handle, shape)) {
    std::string const what = id + ": " + shape.describe();
    CAPTURE(what);
    Chain one_by_one(handle, problem, id), in_stream(handle, problem, id),
        in_graph(handle, problem, id);
    one_by_one.run_one_by_one();
    in_stream.run_in_stream();
    in_graph.run_in_graph();
    Results const expected = one_by_one.results();
    for (Chain* const chain : {&in_stream, &in_graph}) {
      Results const results = chain->results();
      CHECK(are_near(expected, results));
      if (is_deterministic(id)) CHECK(results.bits == expected.bits);
    }
  }
}

}  // namespace

TEST_CASE("a chain of forward calls has the bits of calls one by one, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  check_chains(handle, chain_shape(MSDA_DTYPE_F32, MSDA_FORWARD, 0), 71);
  check_chains(handle, chain_shape(MSDA_DTYPE_F16, MSDA_FORWARD, 2), 72);
}

TEST_CASE("a chain of backward calls has the bits of calls one by one, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  check_chains(handle, chain_shape(MSDA_DTYPE_F32, MSDA_BACKWARD, 0), 71);
  check_chains(handle, chain_shape(MSDA_DTYPE_F16, MSDA_BACKWARD, 2), 72);
}

#endif  // MSDA_HAS_CUDA
