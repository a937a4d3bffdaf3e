// Measures what a call gains by beginning while the one before still runs (docs/performance.md,
// "Calls behind each other"): the time of a call among many in one graph, and in the same graph
// with its programmatic edges replaced by full ones, so that each kernel begins when the one before
// has ended.
//
//   msda_chained_calls [DEVICE [CALLS]]
//
// fp16 on small and large workloads, forward and backward, all values in L2 as far as they fit. A
// line has the kernel that the plan chose and both times in microseconds, medians of 15 launches of
// either graph in turns; before them both graphs' results are compared with those of one call.
#include "command/measure/plan_runner.h"
#include "command/problem/problem_shape.h"
#include "command/problem/workloads.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace msda::command;

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
  }
}

// Programmatic edges of the graph become full ones; how many there were.
std::size_t make_edges_full(cudaGraph_t graph) {
  std::size_t count = 0;
  check(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count), "counting edges");
  std::vector<cudaGraphNode_t> from(count), to(count);
  std::vector<cudaGraphEdgeData> edges(count);
  check(cudaGraphGetEdges(graph, from.data(), to.data(), edges.data(), &count), "reading edges");
  std::size_t programmatic = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (edges[i].type != cudaGraphDependencyTypeProgrammatic) continue;
    ++programmatic;
    check(cudaGraphRemoveDependencies(graph, &from[i], &to[i], &edges[i], 1), "removing an edge");
    check(cudaGraphAddDependencies(graph, &from[i], &to[i], nullptr, 1), "adding an edge");
  }
  return programmatic;
}

// Calls of a plan in a stream of their own, and two graphs of them.
class ChainedCalls {
 public:
  ChainedCalls(Engine const& engine, Case const& input, int calls)
      : plan_(engine.handle, input.spec.copy().c),
        gpu_(engine.device),
        results_(make_results(input.spec, {})),
        calls_(calls) {
    tensors_ = msda::make<msda_tensors>();
    for (TensorRow const& row : tensor_rows()) {
      if (Array const* const array = input.find(row.name)) bind(row, *array, false);
      for (auto& [name, array] : results_) {
        if (name == row.name) bind(row, array, true);
      }
    }
    tensors_.workspace = gpu_.workspace(plan_.info().workspace_bytes);
    tensors_.workspace_bytes = plan_.info().workspace_bytes;
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "creating a stream");
    check(cudaEventCreate(&begin_), "creating an event");
    check(cudaEventCreate(&end_), "creating an event");
    capture();
  }
  ChainedCalls(ChainedCalls const&) = delete;
  ~ChainedCalls() {
    for (cudaGraphExec_t const graph : graphs_) cudaGraphExecDestroy(graph);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }

  std::string kernel_id() const { return plan_.info().kernel_id; }
  std::size_t programmatic_edges() const { return programmatic_edges_; }

  // Whether both graphs leave the bits that one call leaves.
  bool same_bits() {
    plan_.execute(tensors_, stream_);
    std::vector<NamedArray> const expected = fetched();
    for (cudaGraphExec_t const graph : graphs_) {
      poison();
      check(cudaGraphLaunch(graph, stream_), "launching a graph");
      std::vector<NamedArray> const found = fetched();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (expected[i].second.bytes != found[i].second.bytes) return false;
      }
    }
    return true;
  }

  // Microseconds of a call: as captured, and with full edges.
  std::pair<double, double> times() {
    std::vector<double> us[2];
    for (int i = 0; i < kLaunches + 2; ++i) {
      for (int g = 0; g < 2; ++g) {
        check(cudaEventRecord(begin_, stream_), "recording an event");
        check(cudaGraphLaunch(graphs_[g], stream_), "launching a graph");
        check(cudaEventRecord(end_, stream_), "recording an event");
        check(cudaEventSynchronize(end_), "running a graph");
        float ms = 0;
        check(cudaEventElapsedTime(&ms, begin_, end_), "timing a graph");
        if (i >= 2) us[g].push_back(1e3 * ms / calls_);
      }
    }
    for (auto& all : us) std::nth_element(all.begin(), all.begin() + kLaunches / 2, all.end());
    return {us[0][kLaunches / 2], us[1][kLaunches / 2]};
  }

 private:
  static constexpr int kLaunches = 15;

  void bind(TensorRow const& row, Array const& array, bool is_result) {
    auto* const host = const_cast<std::byte*>(array.bytes.data());
    void* const device = gpu_.add(host, array.bytes.size(), is_result);
    set_pointer(tensors_, row.id, device);
    if (is_result) on_device_.push_back({device, array.bytes.size()});
  }
  void poison() const {
    for (auto const& [device, bytes] : on_device_) {
      check(cudaMemset(device, 0xff, bytes), "poisoning a result");
    }
    check(cudaDeviceSynchronize(), "poisoning results");
  }
  std::vector<NamedArray> fetched() {
    gpu_.fetch();
    return results_;
  }
  void capture() {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), "beginning a capture");
    for (int i = 0; i < calls_; ++i) plan_.execute(tensors_, stream_);
    check(cudaStreamEndCapture(stream_, &graph), "ending a capture");
    check(cudaGraphInstantiate(&graphs_[0], graph, 0), "instantiating a graph");
    programmatic_edges_ = make_edges_full(graph);
    check(cudaGraphInstantiate(&graphs_[1], graph, 0), "instantiating a graph");
    check(cudaGraphDestroy(graph), "destroying a graph");
  }

  msda::Plan plan_;
  GpuCall gpu_;
  std::vector<NamedArray> results_;
  std::vector<std::pair<void*, std::size_t>> on_device_;
  msda_tensors tensors_{};
  int calls_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  cudaGraphExec_t graphs_[2] = {};
  std::size_t programmatic_edges_ = 0;
};

// False where results differ.
bool measure(Engine const& engine, Workload const& workload, msda_operation operation, int calls) {
  ProblemShape spec = workload.shape;
  spec.set_dtypes(MSDA_DTYPE_F16);
  spec.operation = operation;
  ChainedCalls chain(engine, random_case(workload, spec, 1), calls);
  if (!chain.same_bits()) {
    std::printf("%-12s results of a graph differ from those of a call\n", workload.name.c_str());
    return false;
  }
  auto const [overlapping, waiting] = chain.times();
  std::printf("%-12s %-8s %-34s %5zu %9.2f %9.2f\n", workload.name.c_str(),
              operation == MSDA_FORWARD ? "forward" : "backward", chain.kernel_id().c_str(),
              chain.programmatic_edges(), overlapping, waiting);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Engine const engine(argc > 1 ? std::atoi(argv[1]) : 0, 0);
    int const calls = argc > 2 ? std::atoi(argv[2]) : 20;
    if (calls < 2) throw std::runtime_error("CALLS is 2 or more");
    std::printf("%-12s %-8s %-34s %5s %9s %9s\n", "workload", "", "kernel", "edges", "overlap us",
                "wait us");
    bool good = true;
    for (Workload const& workload : all_workloads()) {
      constexpr std::string_view kNames[] = {"dec", "rtdetr", "enc-local", "bev-local"};
      if (std::ranges::find(kNames, workload.name) == std::end(kNames)) continue;
      for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
        good = measure(engine, workload, operation, calls) && good;
      }
    }
    return good ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "msda_chained_calls: %s\n", error.what());
    return 1;
  }
}
