// Forward and backward on a GPU from C++: one problem, two plans, a workspace in device memory that
// serves both, and a CUDA graph of a training step's two calls. The results are those of the CPU
// within the rounding of float32.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <msda.hpp>
#include <random>
#include <stdexcept>
#include <vector>

namespace {

constexpr std::int32_t kLevelHw[] = {32, 48, 16, 24};  // (H, W) of each level
constexpr int kLevels = 2, kPoints = 4, kHeads = 8, kChannels = 32, kQueries = 300;
constexpr int kTokens = 32 * 48 + 16 * 24, kRowPoints = kLevels * kPoints;

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}
void* allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes));
  return memory;
}
void release(void* memory) { cudaFree(memory); }

// Floats on the device, a copy of those of the host.
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<float>& host)
      : memory_(static_cast<float*>(allocate(host.size() * sizeof(float)))), size_(host.size()) {
    check(cudaMemcpy(get(), host.data(), size_ * sizeof(float), cudaMemcpyHostToDevice));
  }
  float* get() const { return memory_.get(); }
  std::vector<float> copy() const {
    std::vector<float> host(size_);
    check(cudaMemcpy(host.data(), get(), size_ * sizeof(float), cudaMemcpyDeviceToHost));
    return host;
  }

 private:
  struct Free {
    void operator()(float* memory) const { release(memory); }
  };
  std::unique_ptr<float, Free> memory_;
  std::size_t size_;
};

std::vector<float> random_floats(std::size_t count, float low, float high) {
  static std::mt19937 generator(1);
  std::uniform_real_distribution<float> numbers(low, high);
  std::vector<float> result(count);
  for (float& x : result) x = numbers(generator);
  return result;
}

double largest_error(const std::vector<float>& x, const std::vector<float>& exact) {
  double error = 0, scale = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    error = std::max(error, std::abs(static_cast<double>(x[i]) - exact[i]));
    scale = std::max(scale, std::abs(static_cast<double>(exact[i])));
  }
  return error / scale;
}

int run() {
  std::vector<float> value = random_floats(kTokens * kHeads * kChannels, -1, 1);
  std::vector<float> coord = random_floats(kQueries * kHeads * kRowPoints * 2, 0, 1);
  std::vector<float> weight = random_floats(kQueries * kHeads * kRowPoints, 0, 1);
  std::vector<float> output(kQueries * kHeads * kChannels), grad_value(value.size());
  std::vector<float> grad_output = random_floats(output.size(), -1, 1);

  auto problem = msda::make<msda_problem>();
  problem.level_hw = kLevelHw;
  problem.level_count = kLevels;
  problem.point_count = kPoints;
  problem.batch = 1;
  problem.query_count = kQueries;
  problem.head_count = kHeads;
  problem.head_dim = kChannels;
  problem.value_dtype = MSDA_DTYPE_F32;

  auto tensors = msda::make<msda_tensors>();
  tensors.value = value.data();
  tensors.coord = coord.data();
  tensors.weight = weight.data();
  tensors.output = output.data();
  tensors.grad_output = grad_output.data();
  tensors.grad_value = grad_value.data();
  const msda::Plans on_cpu(msda::Handle::cpu(), problem);
  const msda::Workspace cpu_workspace(on_cpu);
  cpu_workspace.attach(tensors);
  on_cpu.forward.execute(tensors);
  on_cpu.backward.execute(tensors);

  const DeviceArray gpu_value(value), gpu_coord(coord), gpu_weight(weight);
  const DeviceArray gpu_grad_output(grad_output);
  const DeviceArray gpu_output(std::vector<float>(output.size()));
  const DeviceArray gpu_grad_value(std::vector<float>(value.size()));
  tensors.value = gpu_value.get();
  tensors.coord = gpu_coord.get();
  tensors.weight = gpu_weight.get();
  tensors.output = gpu_output.get();
  tensors.grad_output = gpu_grad_output.get();
  tensors.grad_value = gpu_grad_value.get();
  const msda::Plans on_gpu(msda::Handle::cuda(0), problem);
  const msda::Workspace workspace(on_gpu, allocate, release);
  workspace.attach(tensors);

  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  on_gpu.forward.execute(tensors, stream);
  on_gpu.backward.execute(tensors, stream);
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&runnable, graph, 0));
  for (int step = 0; step < 3; ++step) check(cudaGraphLaunch(runnable, stream));
  check(cudaStreamSynchronize(stream));
  check(cudaGraphExecDestroy(runnable));
  check(cudaGraphDestroy(graph));
  check(cudaStreamDestroy(stream));

  const double of_output = largest_error(gpu_output.copy(), output);
  const double of_gradient = largest_error(gpu_grad_value.copy(), grad_value);
  std::printf("%s and %s: output %.1e and grad_value %.1e from the CPU's, of the largest element\n",
              on_gpu.forward.info().kernel_id, on_gpu.backward.info().kernel_id, of_output,
              of_gradient);
  return of_output < 1e-5 && of_gradient < 1e-5 ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
