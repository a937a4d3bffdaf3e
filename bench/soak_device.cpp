#include "soak_device.h"

#include "core/build_config.h"

#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#if MSDA_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace msda::bench {
namespace {

constexpr std::align_val_t kAlignment{256};  // as cudaMalloc() has it
constexpr int kPoison = 0xFF;                // NaN in every type

#if MSDA_HAS_CUDA
void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}
cudaStream_t cuda(msda_stream stream) { return static_cast<cudaStream_t>(stream); }
#endif

}  // namespace

SoakDevice::SoakDevice(std::int32_t number) : number_(number) {
#if !MSDA_HAS_CUDA
  if (is_gpu()) throw std::runtime_error("this program was built without CUDA");
#endif
  make_current();
}

void SoakDevice::make_current() const {
#if MSDA_HAS_CUDA
  if (is_gpu()) check(cudaSetDevice(number_), "making the device current");
#endif
}

std::int64_t SoakDevice::used_bytes() const {
#if MSDA_HAS_CUDA
  if (is_gpu()) {
    std::size_t free = 0, total = 0;
    check(cudaDeviceSynchronize(), "waiting for the device");
    check(cudaMemGetInfo(&free, &total), "asking for the device's memory");
    return static_cast<std::int64_t>(total - free);
  }
#endif
  return 0;
}

SoakMemory::SoakMemory(SoakDevice const& device, std::size_t bytes)
    : is_gpu_(device.is_gpu()), bytes_(bytes) {
  if (bytes == 0) return;
#if MSDA_HAS_CUDA
  if (is_gpu_) {
    check(cudaMalloc(&data_, bytes), "allocating device memory");
    return;
  }
#endif
  data_ = ::operator new(bytes, kAlignment);
  std::memset(data_, kPoison, bytes);
}

SoakMemory::SoakMemory(SoakMemory&& other) noexcept
    : is_gpu_(other.is_gpu_), bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}

SoakMemory::~SoakMemory() {
#if MSDA_HAS_CUDA
  if (is_gpu_) {
    static_cast<void>(cudaFree(data_));
    return;
  }
#endif
  ::operator delete(data_, kAlignment);
}

void SoakMemory::copy_from(const void* host) const {
  if (bytes_ == 0) return;
#if MSDA_HAS_CUDA
  if (is_gpu_) {
    check(cudaMemcpy(data_, host, bytes_, cudaMemcpyHostToDevice), "copying to the device");
    check(cudaDeviceSynchronize(), "copying to the device");  // before other streams read it
    return;
  }
#endif
  std::memcpy(data_, host, bytes_);
}

SoakStream::SoakStream(SoakDevice const& device) : is_gpu_(device.is_gpu()) {
#if MSDA_HAS_CUDA
  if (!is_gpu_) return;
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  stream_ = stream;
#endif
}

SoakStream::~SoakStream() {
#if MSDA_HAS_CUDA
  if (is_gpu_) static_cast<void>(cudaStreamDestroy(cuda(stream_)));
#endif
}

void SoakStream::poison(SoakMemory const& memory) const {
  if (memory.size() == 0) return;
#if MSDA_HAS_CUDA
  if (is_gpu_) {
    check(cudaMemsetAsync(memory.data(), kPoison, memory.size(), cuda(stream_)),
          "poisoning a result");
    return;
  }
#endif
  std::memset(memory.data(), kPoison, memory.size());
}

void SoakStream::read(SoakMemory const& memory, void* host) const {
  if (memory.size() == 0) return;
#if MSDA_HAS_CUDA
  if (is_gpu_) {
    check(
        cudaMemcpyAsync(host, memory.data(), memory.size(), cudaMemcpyDeviceToHost, cuda(stream_)),
        "copying from the device");
    return;
  }
#endif
  std::memcpy(host, memory.data(), memory.size());
}

void SoakStream::wait() const {
#if MSDA_HAS_CUDA
  if (is_gpu_) check(cudaStreamSynchronize(cuda(stream_)), "running the calls of a stream");
#endif
}

}  // namespace msda::bench
