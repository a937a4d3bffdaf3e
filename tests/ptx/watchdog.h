// Whether work given to a stream ends: a kernel that hangs is a failure after some minutes, and the
// end of the program, since nothing else can be done with the device then.
#pragma once

#include "core/clock.h"
#include "core/cuda.h"
#include "support/hang.h"

#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace msda::test {

inline bool ends_within_limit(cudaStream_t stream, Clock clock = steady_us) {
  double const end_us = clock() + std::chrono::duration<double, std::micro>(kHangLimit).count();
  while (true) {
    cudaError_t const error = cudaStreamQuery(stream);
    if (error != cudaErrorNotReady) {
      cuda::check(error, "running a kernel of the tests");
      return true;
    }
    if (clock() > end_us) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

inline void end_program_unless_done(cudaStream_t stream, const char* what) {
  if (ends_within_limit(stream)) return;
  std::fprintf(stderr, "ERROR: %s does not end within %d minutes\n", what,
               static_cast<int>(kHangLimit.count()));
  std::fflush(nullptr);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace msda::test
