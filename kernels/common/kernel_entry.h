// A kernel's entry in the CUDA run-time library, and the handle of a kernel that a plan has loaded.
// It needs none of CUDA's headers, so that a family's own header needs none.
#pragma once

#include <cstdint>

struct CUkern_st;  // cudaKernel_t points to one

namespace msda {

// A kernel of these parameters that a plan has loaded. The handle is looked up then, not at every
// launch.
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
