// Whether work given to a stream ends: a kernel that hangs is a failure after some seconds, and the
// end of the program, since nothing else can be done with the device then.
#pragma once

#include "core/cuda.h"

#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace msda::test {

inline bool ends_within(cudaStream_t stream, std::chrono::milliseconds limit) {
  auto const end = std::chrono::steady_clock::now() + limit;
  while (true) {
    cudaError_t const error = cudaStreamQuery(stream);
    if (error != cudaErrorNotReady) {
      cuda::check(error, "running a kernel of the tests");
      return true;
    }
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

inline void end_program_unless_done(cudaStream_t stream, const char* what) {
  constexpr std::chrono::seconds kLimit{20};
  if (ends_within(stream, kLimit)) return;
  std::fprintf(stderr, "ERROR: %s does not end within %d s\n", what,
               static_cast<int>(kLimit.count()));
  std::fflush(nullptr);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace msda::test
