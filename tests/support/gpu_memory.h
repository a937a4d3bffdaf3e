// Calls on a GPU: copies of a call's host buffers in device memory, with guard bytes on both sides.
#pragma once

#include "support/runner.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
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

// A call's buffers where the handle's device can reach them: the host's as they are, or copies on a
// GPU.
class PlacedCall {
 public:
  PlacedCall(TestHandle const& handle, msda_plan const* plan, CallBuffers& host);

  msda_tensors const& c() const { return gpu_ ? gpu_->c() : host_.c(); }
  // Results and workspace.
  void poison();
  // As of a GpuCall; on the CPU there is nothing to wait for.
  std::string finish() { return gpu_ ? gpu_->finish() : ""; }

 private:
  CallBuffers& host_;
  std::unique_ptr<GpuCall> gpu_;
};

// Devices of this machine that CUDA can use; 0 without CUDA.
int gpu_count();

// Makes a device the thread's current one, and at its end the one that was so before.
class CurrentGpu {
 public:
  explicit CurrentGpu(int device);
  ~CurrentGpu();
  CurrentGpu(CurrentGpu const&) = delete;

 private:
  int before_ = 0;
};

// As a caller's allocator gets memory of a device. Null where there is none left.
void* allocate_on_gpu(std::size_t bytes, int device);
void free_on_gpu(void* pointer, int device);

// Throws std::runtime_error when a CUDA call of a test failed.
void require_cuda(int error, const char* what);

}  // namespace msda::test
