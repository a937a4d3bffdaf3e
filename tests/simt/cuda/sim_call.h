// What every function of the library does before and after its own work: errors that tests inject,
// errors that stay, what a capture forbids, and the thread's last error.
#pragma once

#include "cuda/sim_state.h"

namespace simt::cuda {

enum class Needs {
  kNothing,  // answers even after a device has failed
  kDevice,   // fails where the current device has failed before
  kUnsafe,   // also where a capture forbids what may not be recorded (cudaThreadExchangeStream...)
};

// While one exists, the thread runs a function of the host that a stream was given: calls of the
// library are refused.
class InHostFunction {
 public:
  InHostFunction();
  ~InHostFunction();
  InHostFunction(InHostFunction const&) = delete;
  InHostFunction& operator=(InHostFunction const&) = delete;
};

// cudaSuccess: the call may go on.
cudaError_t before_call(const char* name, Needs needs);
// What the call returns: the thread's last error from here on.
cudaError_t after_call(Needs needs, cudaError_t error);

// The body of a function of the library, with the lock held.
template <typename Body>
cudaError_t api(const char* name, Needs needs, Body&& body) {
  Lock lock(state().mutex);
  cudaError_t error = before_call(name, needs);
  if (error == cudaSuccess) error = body(lock);
  return after_call(needs, error);
}

}  // namespace simt::cuda
