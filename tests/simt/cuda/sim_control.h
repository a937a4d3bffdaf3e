// For tests: what the simulated devices are like, errors at will, and what is held.
#pragma once

#include "cuda/sim_settings.h"

#include <driver_types.h>

#include <cstddef>
#include <string>

namespace simt::cuda {

Settings settings();
// From here on, also for handles that exist. The number of devices must not fall below one that is
// in use.
void set_settings(Settings const& settings);

// Sets settings for a while.
class ScopedSettings {
 public:
  explicit ScopedSettings(Settings const& with) : before_(settings()) { set_settings(with); }
  ~ScopedSettings() { set_settings(before_); }
  ScopedSettings(ScopedSettings const&) = delete;
  ScopedSettings& operator=(ScopedSettings const&) = delete;

 private:
  Settings before_;
};

// The n-th call of this function from here on, by whichever thread, is not made and returns
// `error`; n = 1 is the next.
void inject_error(std::string const& function, int n, cudaError_t error);
// The n-th run from here on of a kernel whose name contains this fails instead of running: the
// error stays, as that of a real device, until cudaDeviceReset().
void inject_kernel_failure(std::string const& name, int n, cudaError_t error);
// Injections that have not happened are forgotten.
void clear_injections();

// Why this thread's last cuTensorMapEncodeTiled() that failed did so: a sentence.
std::string tensor_map_refusal();

struct Held {
  std::size_t device_bytes = 0;  // of all devices, managed memory included
  std::size_t allocations = 0;   // of every kind
  std::size_t streams = 0, events = 0, graphs = 0, graph_execs = 0;
};
Held held();

}  // namespace simt::cuda
