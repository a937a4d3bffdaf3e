// Calls on a GPU: copies of a call's host buffers in device memory, with guard bytes on both sides.
#pragma once

#include "support/runner.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace msda::test {

// One device buffer. Its address has the offset within 256 bytes that `like` has.
class GpuBuffer {
 public:
  GpuBuffer(std::size_t bytes, const void* like);
  ~GpuBuffer();
  GpuBuffer(GpuBuffer&& other) noexcept;
  GpuBuffer(GpuBuffer const&) = delete;

  void* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  void copy_from(const void* host);
  void copy_to(void* host) const;
  bool surroundings_intact() const;

 private:
  std::byte* allocation_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t total_ = 0;
};

// All buffers of a call, on the device.
class GpuCall {
 public:
  GpuCall(msda_plan const* plan, CallBuffers& host);

  msda_tensors const& c() const { return tensors_; }
  // Results and workspace as the host has them, poisoned or not.
  void reset();
  // Waits, copies the results back; "" or what went wrong.
  std::string finish();

  // Runs the call `count` times in the stream, each into results and workspace that have been
  // poisoned, and returns the hash of each run's results. `enqueue` puts one run into the stream;
  // false: it could not. Waits for the end. Throws std::runtime_error where something fails.
  std::vector<std::uint64_t> hash_runs(int count, void* stream,
                                       std::function<bool()> const& enqueue);

 private:
  struct Pair {
    GpuBuffer device;
    void* host;
    bool is_result;
    std::string name;
  };
  void add(void* host, std::size_t bytes, bool is_result, std::string const& name, void** pointer);

  CallBuffers& host_;
  std::vector<Pair> pairs_;
  msda_tensors tensors_;
};

Executed execute_on_gpu(msda_plan const* plan, CallBuffers& buffers);

// Throws std::runtime_error when a CUDA call of a test failed.
void require_cuda(int error, const char* what);

}  // namespace msda::test
