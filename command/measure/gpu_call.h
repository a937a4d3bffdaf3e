// One problem's tensors in the memory of a GPU, and the time its kernels take there. A command that
// was built without CUDA cannot make one; it cannot have a plan for a GPU either.
#pragma once

#include <msda.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace msda::command {

class GpuCall {
 public:
  explicit GpuCall(std::int32_t device);
  ~GpuCall();
  GpuCall(GpuCall const&) = delete;
  GpuCall& operator=(GpuCall const&) = delete;

  // Device memory with a copy of `bytes` bytes of the host; fetch() brings results back to there.
  void* add(void* host, std::size_t bytes, bool is_result);
  void* workspace(std::size_t bytes);

  // Waits for the work so far; throws std::runtime_error when the device failed.
  void fetch();

  // Microseconds between the two, as the device counts them. The first may write `flush_bytes`
  // before, so that the caches hold nothing of the problem.
  void start_timing(std::size_t flush_bytes);
  double stop_timing();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace msda::command
