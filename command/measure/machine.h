// The words of a report about the machine that was measured on; its CPU: core/cpu_model.h.
#pragma once

#include <msda.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace msda::command {

std::size_t last_level_cache_bytes();  // 0: unknown

// A GPU that a handle can be created for.
struct Gpu {
  std::string name;
  std::int32_t sm;  // compute capability times ten
  std::int32_t sm_count;
};
Gpu gpu_of(std::int32_t device);

// Whether this build has code of the kernel for the CPU (gpu is null) or the GPU.
bool runs_on(msda_kernel_info const& kernel, Gpu const* gpu);

}  // namespace msda::command
