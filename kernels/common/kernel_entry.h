// What the CUDA run-time library knows a kernel by; without that library's headers.
#pragma once

#include <cstdint>

struct CUkern_st;

namespace msda {

// A kernel of these parameters that a plan has loaded. The handle, a cudaKernel_t, is looked up
// then, not at every launch.
template <typename... Parameters>
struct Kernel {
  CUkern_st* handle = nullptr;
  std::int32_t code_sm = 0;  // compute capability, times ten, that its code was made for
};

#ifdef MSDA_SIMULATED  // tests/simt/runtime/kernel_launch.h
using simt::kernel_entry;
#else
template <typename... Parameters>
const void* kernel_entry(void (*kernel)(Parameters...)) {
  return reinterpret_cast<const void*>(kernel);
}
#endif

}  // namespace msda
