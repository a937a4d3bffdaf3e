#include "support/gpu_memory.h"

#include "core/build_config.h"
#include "support/gpu_tests.h"
#include "support/result_hash.h"
#include "support/shared_garbage.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#if MSDA_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace msda::test {

#if MSDA_HAS_CUDA

namespace {

constexpr std::size_t kGuard = 512;
constexpr std::byte kGuardByte{0xA5};

}  // namespace

void require_cuda(int error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(
      fmt::format("{}: {}", what, cudaGetErrorString(static_cast<cudaError_t>(error))));
}

GpuBuffer::GpuBuffer(std::size_t bytes, const void* like) : bytes_(bytes) {
  std::size_t const offset = reinterpret_cast<std::uintptr_t>(like) % 256;
  total_ = kGuard + offset + bytes + kGuard;
  void* memory = nullptr;
  require_cuda(cudaMalloc(&memory, total_), "cudaMalloc");
  allocation_ = static_cast<std::byte*>(memory);
  data_ = allocation_ + kGuard + offset;
  require_cuda(cudaMemset(memory, std::to_integer<int>(kGuardByte), total_), "cudaMemset");
}

GpuBuffer::~GpuBuffer() { cudaFree(allocation_); }

GpuBuffer::GpuBuffer(GpuBuffer&& other) noexcept
    : allocation_(std::exchange(other.allocation_, nullptr)),
      data_(other.data_),
      bytes_(other.bytes_),
      total_(other.total_) {}

void GpuBuffer::copy_from(const void* host) {
  require_cuda(cudaMemcpy(data_, host, bytes_, cudaMemcpyHostToDevice), "copying to the device");
  // A copy from pageable memory returns when the data have been staged: a stream that does not wait
  // for the default one could begin before they are there.
  require_cuda(cudaStreamSynchronize(nullptr), "waiting for the copy");
}

void GpuBuffer::copy_to(void* host) const {
  require_cuda(cudaMemcpy(host, data_, bytes_, cudaMemcpyDeviceToHost), "copying from the device");
}

bool GpuBuffer::surroundings_intact() const {
  auto const before = static_cast<std::size_t>(data_ - allocation_);
  std::vector<std::byte> bytes(before + kGuard);
  require_cuda(cudaMemcpy(bytes.data(), allocation_, before, cudaMemcpyDeviceToHost), "reading");
  require_cuda(cudaMemcpy(bytes.data() + before, data_ + bytes_, kGuard, cudaMemcpyDeviceToHost),
               "reading");
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kGuardByte; });
}

void GpuCall::add(void* host, std::size_t bytes, bool is_result, std::string const& name,
                  void** pointer) {
  if (host == nullptr || bytes == 0) return;
  pairs_.push_back({GpuBuffer(bytes, host), host, is_result, name});
  *pointer = pairs_.back().device.data();
}

GpuCall::GpuCall(msda_plan const* plan, CallBuffers& host) : host_(host), tensors_(host.c()) {
  for (TensorRow const& row : tensor_rows()) {
    HostTensor& tensor = host.tensor(row.id);
    auto const bytes =
        static_cast<std::size_t>(tensor.layout().span()) * element_bytes(tensor.layout().dtype);
    msda_tensors without = host.c();
    set_pointer(without, row.id, nullptr);
    if (std::memcmp(&without, &host.c(), sizeof(without)) == 0) continue;  // not asked for
    void* pointer = nullptr;
    add(tensor.data(), bytes, row.is_result() || row.is_extra(), std::string(row.name), &pointer);
    if (pointer != nullptr) set_pointer(tensors_, row.id, pointer);
  }
  add(host.c().workspace, plan_info(plan).workspace_bytes, true, "workspace", &tensors_.workspace);
  for (Pair& pair : pairs_) pair.device.copy_from(pair.host);
}

void GpuCall::reset() {
  for (Pair& pair : pairs_) {
    if (pair.is_result) pair.device.copy_from(pair.host);
  }
}

std::string GpuCall::finish() {
  cudaError_t const error = cudaDeviceSynchronize();
  if (error != cudaSuccess) return fmt::format("the device failed: {}", cudaGetErrorString(error));
  for (Pair& pair : pairs_) {
    if (!pair.device.surroundings_intact()) {
      return fmt::format("{}: device memory beside it was written", pair.name);
    }
    if (pair.is_result) pair.device.copy_to(pair.host);
  }
  return "";
}

std::vector<std::uint64_t> GpuCall::hash_runs(int count, void* stream,
                                              std::function<bool()> const& enqueue) {
  auto* const on_stream = static_cast<cudaStream_t>(stream);
  host_.poison();
  std::vector<GpuBuffer> poisoned;
  for (Pair const& pair : pairs_) {
    if (!pair.is_result) continue;
    poisoned.emplace_back(pair.device.size(), pair.host);
    poisoned.back().copy_from(pair.host);
  }
  std::vector<std::uint64_t> hashes(static_cast<std::size_t>(count), 0);
  GpuBuffer sums(hashes.size() * sizeof(hashes[0]), nullptr);
  sums.copy_from(hashes.data());
  for (int run = 0; run < count; ++run) {
    auto poison = poisoned.begin();
    for (Pair const& pair : pairs_) {
      if (!pair.is_result) continue;
      require_cuda(cudaMemcpyAsync(pair.device.data(), poison->data(), pair.device.size(),
                                   cudaMemcpyDeviceToDevice, on_stream),
                   "poisoning");
      ++poison;
    }
    if (!enqueue()) throw std::runtime_error(fmt::format("run {} could not be enqueued", run));
    std::uint64_t salt = 0;
    for (Pair const& pair : pairs_) {
      salt += std::uint64_t{1} << 48;
      if (!pair.is_result || pair.name == "workspace") continue;
      if (!launch_result_hash(pair.device.data(), pair.device.size(), salt,
                              static_cast<std::uint64_t*>(sums.data()) + run, stream)) {
        throw std::runtime_error("the hash of the results could not be launched");
      }
    }
  }
  require_cuda(cudaStreamSynchronize(on_stream), "waiting for the runs");
  sums.copy_to(hashes.data());
  return hashes;
}

Executed execute_on_gpu(msda_plan const* plan, CallBuffers& buffers) {
  GpuCall call(plan, buffers);
#if !MSDA_TEST_SIMULATED  // where each block has garbage of its own
  if (!fill_shared_memory(nullptr)) throw std::runtime_error("shared memory could not be filled");
#endif
  Executed result{msda_execute(plan, &call.c(), nullptr), "", ""};
  if (result.status != MSDA_SUCCESS) result.message = msda_last_error();
  result.failure = call.finish();
  return result;
}

int gpu_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) count = 0;
  static_cast<void>(cudaGetLastError());
  return count;
}

CurrentGpu::CurrentGpu(int device) {
  require_cuda(cudaGetDevice(&before_), "reading the current device");
  require_cuda(cudaSetDevice(device), "making a device current");
}
CurrentGpu::~CurrentGpu() { cudaSetDevice(before_); }

void* allocate_on_gpu(std::size_t bytes, int device) {
  CurrentGpu const current(device);
  void* pointer = nullptr;
  if (cudaMalloc(&pointer, bytes) == cudaSuccess) return pointer;
  static_cast<void>(cudaGetLastError());
  return nullptr;
}

void free_on_gpu(void* pointer, int device) {
  CurrentGpu const current(device);
  require_cuda(cudaFree(pointer), "cudaFree");
}

#else

GpuBuffer::~GpuBuffer() = default;
GpuCall::GpuCall(msda_plan const*, CallBuffers& host) : host_(host) {
  throw std::runtime_error("built without CUDA, yet a plan for a GPU was made");
}
void GpuCall::reset() {}
std::string GpuCall::finish() { return ""; }

int gpu_count() { return 0; }
void* allocate_on_gpu(std::size_t, int) { return nullptr; }
void free_on_gpu(void*, int) {}

Executed execute_on_gpu(msda_plan const*, CallBuffers&) {
  throw std::runtime_error("built without CUDA, yet a plan for a GPU was made");
}

#endif

PlacedCall::PlacedCall(TestHandle const& handle, msda_plan const* plan, CallBuffers& host)
    : host_(host), gpu_(handle.on_gpu() ? std::make_unique<GpuCall>(plan, host) : nullptr) {}

void PlacedCall::poison() {
  host_.poison();
  if (gpu_) gpu_->reset();
}

}  // namespace msda::test
