// Runs a kernel of the tests and returns what it stored: on a GPU where nvcc compiles this, on the
// simulated device where g++ does, with the same results.
#pragma once

#include "kernels/common/launch.h"
#include "kernels/common/ptx.cuh"
#include "ptx/watchdog.h"

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace msda::test {

template <typename T>
class DeviceVector {
 public:
  explicit DeviceVector(std::vector<T> const& values) : size_(values.size()) {
    cuda::check(cudaMalloc(&data_, bytes()), "allocating");
    cuda::check(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), "copying");
  }
  explicit DeviceVector(std::size_t size) : DeviceVector(std::vector<T>(size)) {}
  ~DeviceVector() { static_cast<void>(cudaFree(data_)); }
  DeviceVector(DeviceVector const&) = delete;
  DeviceVector& operator=(DeviceVector const&) = delete;

  T* data() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> result(size_);
    cuda::check(cudaMemcpy(result.data(), data_, bytes(), cudaMemcpyDeviceToHost), "copying");
    return result;
  }

 private:
  std::size_t bytes() const { return size_ * sizeof(T); }
  T* data_ = nullptr;
  std::size_t size_;
};

// 0, 1, 2, ...
inline std::vector<std::uint32_t> counted(std::size_t size) {
  std::vector<std::uint32_t> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = static_cast<std::uint32_t>(i);
  return values;
}

template <typename... Parameters>
void run(void (*kernel)(Parameters...), LaunchOptions const& options,
         std::type_identity_t<Parameters> const&... parameters) {
  auto const loaded = load_kernel(kernel, options.shared_bytes);
  launch_kernel(loaded, options, nullptr, parameters...);
  end_program_unless_done(nullptr, "a kernel of the tests");
}

}  // namespace msda::test
