// The programs that measure a GPU's gather share this: loads that have to be made, and times of
// launches.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace msda::command {

inline constexpr int kLaneBytes = 16, kLineBytes = 128;

inline void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(status));
  }
}

__device__ __forceinline__ uint4 load(const char* at) {
  uint4 v;
  asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at));
  return v;
}

__device__ __forceinline__ void add(uint4& sum, uint4 const& v) {
  sum = {sum.x ^ v.x, sum.y ^ v.y, sum.z ^ v.z, sum.w ^ v.w};
}

__device__ __forceinline__ std::uint32_t mixed(std::uint32_t x) {
  x = (x ^ x >> 16) * 0x7feb352du;
  x = (x ^ x >> 15) * 0x846ca68bu;
  return x ^ x >> 16;
}

// A device, `value_bytes` of zeros on it, a buffer for results, and times.
class GpuTimer {
 public:
  GpuTimer(int device, std::size_t value_bytes) {
    check(cudaSetDevice(device), "cudaSetDevice");
    check(cudaGetDeviceProperties(&properties_, device), "cudaGetDeviceProperties");
    check(cudaDeviceGetAttribute(&clock_khz_, cudaDevAttrClockRate, device),
          "cudaDeviceGetAttribute");
    check(cudaMalloc(&values_, value_bytes), "cudaMalloc");
    check(cudaMemset(values_, 0, value_bytes), "cudaMemset");
    check(cudaMalloc(&out_, kOutput), "cudaMalloc");
    check(cudaMalloc(&flush_, kFlush), "cudaMalloc");
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }
  GpuTimer(GpuTimer const&) = delete;
  ~GpuTimer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaFree(values_);
    cudaFree(flush_);
    cudaFree(out_);
  }

  cudaDeviceProp const& properties() const { return properties_; }
  int sms() const { return properties_.multiProcessorCount; }
  double clock_hz() const { return 1e3 * clock_khz_; }
  const char* values() const { return values_; }
  uint4* out() const { return out_; }

  // The median of 15, in microseconds; before each the caches are flushed, and then `prepare` runs.
  double measure(
      std::function<void()> const& launch, std::function<void()> const& prepare = [] {}) const {
    std::vector<float> times;
    for (int i = 0; i < 17; ++i) {
      check(cudaMemset(flush_, i, kFlush), "cudaMemset");
      prepare();
      check(cudaEventRecord(begin_), "cudaEventRecord");
      launch();
      check(cudaGetLastError(), "launching a kernel");
      check(cudaEventRecord(end_), "cudaEventRecord");
      check(cudaEventSynchronize(end_), "a kernel");
      float ms = 0;
      check(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
      if (i >= 2) times.push_back(1e3f * ms);
    }
    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
    return times[times.size() / 2];
  }

 private:
  static constexpr std::size_t kOutput = std::size_t{64} << 20, kFlush = std::size_t{256} << 20;
  cudaDeviceProp properties_;
  int clock_khz_ = 0;
  char *values_ = nullptr, *flush_ = nullptr;
  uint4* out_ = nullptr;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace msda::command
