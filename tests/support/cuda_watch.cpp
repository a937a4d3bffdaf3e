#include "support/cuda_watch.h"

#include "core/build_config.h"
#include "support/allocation_watch.h"

#if MSDA_HAS_CUDA
#include <cuda_runtime_api.h>

namespace msda::test {
namespace {

thread_local CudaWatch* t_watch = nullptr;

template <typename Real, typename... Arguments>
cudaError_t stand_in(const char* name, int held_more, bool can_fail, Real real,
                     Arguments... arguments) {
  // What the watch and the run-time library allocate is none of the library's.
  AllocationPause const pause;
  CudaWatch* const watch = t_watch;
  if (watch == nullptr) return real(arguments...);
  if (watch->note_call(name, can_fail)) return static_cast<cudaError_t>(watch->error());
  cudaError_t const error = real(arguments...);
  if (error == cudaSuccess) watch->note_success(held_more);
  return error;
}

}  // namespace

CudaWatch::CudaWatch() : CudaWatch(0, cudaSuccess) {}
CudaWatch::CudaWatch(std::int64_t k, int error) : until_fault_(k), error_(error) { t_watch = this; }
CudaWatch::~CudaWatch() { t_watch = nullptr; }

bool CudaWatch::note_call(const char* name, bool can_fail) {
  if (can_fail && until_fault_ > 0 && --until_fault_ == 0) {
    failed_ = name;
    return true;
  }
  calls_.emplace_back(name);
  return false;
}

std::vector<WatchedCall> watched_calls() {
  return {
#define MSDA_CUDA_CALL(name, held_more, can_fail, parameters, arguments) {#name, can_fail},
#include "support/cuda_calls.inc"
#undef MSDA_CUDA_CALL
  };
}

}  // namespace msda::test

// MSDA_TEST_ARGUMENTS (a, b) is ", a, b", and of () nothing.
#define MSDA_TEST_ARGUMENTS(...) __VA_OPT__(, ) __VA_ARGS__
#define MSDA_CUDA_CALL(name, held_more, can_fail, parameters, arguments)      \
  cudaError_t __real_##name parameters;                                       \
  cudaError_t __wrap_##name parameters {                                      \
    return msda::test::stand_in(#name, held_more, can_fail,                   \
                                __real_##name MSDA_TEST_ARGUMENTS arguments); \
  }
extern "C" {
#include "support/cuda_calls.inc"
}
#undef MSDA_CUDA_CALL

#endif
