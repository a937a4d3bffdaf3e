// What the CUDA run-time library knows a kernel by.
#pragma once

namespace msda {

#ifdef MSDA_SIMULATED  // tests/simt/runtime/kernel_launch.h
using simt::kernel_entry;
#else
template <typename... Parameters>
const void* kernel_entry(void (*kernel)(Parameters...)) {
  return reinterpret_cast<const void*>(kernel);
}
#endif

}  // namespace msda
