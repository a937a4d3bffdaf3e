// The CUDA runtime as the library uses it. Everything that includes this file compiles without CUDA
// too; there, a GPU cannot be opened and the error says so.
#pragma once

#include "core/build_config.h"
#include "core/device.h"

#include <msda.h>

#include <cstddef>
#include <cstdint>
#include <string>

#if MSDA_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

struct CUevent_st;  // what a cudaEvent_t points to

namespace msda::cuda {

// Fills in everything but the pool; `name` is what device.name refers to. Throws StatusError:
// MSDA_ERROR_CUDA without a driver or with one that is too old, MSDA_ERROR_INVALID_ARGUMENT for an
// ordinal that does not exist.
Device open_device(std::int32_t ordinal, std::string& name);

// Makes a device the calling thread's current one, and what was current before so again at the end.
// On a CPU device it does nothing.
class CurrentDevice {
 public:
  explicit CurrentDevice(Device const& device);
  ~CurrentDevice();
  CurrentDevice(CurrentDevice const&) = delete;
  CurrentDevice& operator=(CurrentDevice const&) = delete;

 private:
  std::int32_t before_ = -1;
};

// The driver's word on an address; "no" where this process had loaded no driver when
// look_for_driver() was last called. That may allocate, the others do not.
void look_for_driver();
bool is_unknown_to_cuda(const void* pointer);  // the host's, and no device can reach it
bool is_device_only(const void* pointer);      // a device's, and the host cannot reach it

// Memory of the current device. allocate() returns null where none is left.
void* allocate(std::size_t bytes);
void deallocate(void* pointer) noexcept;
// Returns when the bytes are there.
void copy_to_device(void* to, const void* from, std::size_t bytes);

// A failure that was dealt with must not be found by the next launch.
void forget_error() noexcept;

// Whether work given to the stream is recorded and not run; also where a capture of another stream
// forbids to ask.
bool is_capturing(msda_stream stream);

// Refuses a stream of another device, where a launch would run without an error, unless it is
// capturing. The device is current; the default streams are of the device that is.
void check_stream(Device const& device, msda_stream stream);

// Microseconds that work takes: on a GPU those between two events on the stream, on the CPU those
// of the device's clock. The device is current.
class StreamTimer {
 public:
  StreamTimer(Device const& device, msda_stream stream);
  ~StreamTimer();
  StreamTimer(StreamTimer const&) = delete;
  StreamTimer& operator=(StreamTimer const&) = delete;

  void start();
  // Waits for the work since start().
  double stop_us();
  // Waits for whatever the stream was given.
  void drain() noexcept;

 private:
  bool on_gpu_;
  Clock clock_;
  msda_stream stream_;
  double begin_us_ = 0;
  CUevent_st* start_ = nullptr;
  CUevent_st* stop_ = nullptr;
};

#if MSDA_HAS_CUDA
// Throws StatusError MSDA_ERROR_CUDA with what was being done and the runtime's own words.
void check(cudaError_t error, const char* what);
#endif

}  // namespace msda::cuda
