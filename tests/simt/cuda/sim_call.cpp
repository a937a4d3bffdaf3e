#include "cuda/sim_call.h"

#include "cuda/sim_capture.h"
#include "cuda/sim_leaks.h"

#include <utility>

namespace simt::cuda {
namespace {

thread_local int t_device = 0;
thread_local cudaError_t t_last_error = cudaSuccess;
thread_local bool t_in_host_function = false;

cudaError_t injected_error(const char* name) {
  for (Injection& injection : state().injections) {
    if (injection.countdown > 0 && injection.call == name && --injection.countdown == 0) {
      return injection.error;
    }
  }
  return cudaSuccess;
}

// The current device may have gone, where a test has changed the settings.
cudaError_t sticky_error() { return state().devices[static_cast<std::size_t>(t_device)].sticky; }

}  // namespace

State::State() : settings(settings_of_environment()) {
  for (int i = 0; i < kMaxDevices; ++i) {
    DeviceState& device = devices[static_cast<std::size_t>(i)];
    device.ordinal = device.legacy.device = i;
    device.legacy.is_legacy = true;
  }
}

State& state() {
  static State* const the_state = [] {
    report_leaks_at_exit();
    return new State;
  }();
  return *the_state;
}

int current_device() { return t_device; }
void set_current_device(int device) { t_device = device; }

InHostFunction::InHostFunction() { t_in_host_function = true; }
InHostFunction::~InHostFunction() { t_in_host_function = false; }

cudaError_t before_call(const char* name, Needs needs) {
  if (t_in_host_function) return cudaErrorNotPermitted;
  if (cudaError_t const error = injected_error(name); error != cudaSuccess) return error;
  if (needs == Needs::kNothing) return cudaSuccess;
  if (t_device >= state().settings.device_count) return cudaErrorNoDevice;
  if (sticky_error() != cudaSuccess) return sticky_error();
  return needs == Needs::kUnsafe ? forbid_if_capturing() : cudaSuccess;
}

cudaError_t after_call(Needs needs, cudaError_t error) {
  if (error == cudaSuccess && needs != Needs::kNothing) error = sticky_error();
  if (error != cudaSuccess) t_last_error = error;
  return error;
}

}  // namespace simt::cuda

using namespace simt::cuda;

// After an error that stays, it is the last one for good.
cudaError_t cudaPeekAtLastError() {
  Lock const lock(state().mutex);
  cudaError_t const sticky = sticky_error();
  return sticky != cudaSuccess ? sticky : t_last_error;
}

cudaError_t cudaGetLastError() {
  cudaError_t const error = cudaPeekAtLastError();
  t_last_error = cudaSuccess;
  return error;
}
