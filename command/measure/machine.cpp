#include "command/measure/machine.h"

#include "command/measure/device_code.h"
#include "core/build_config.h"

#include <unistd.h>

#include <stdexcept>

#if MSDA_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace msda::command {

std::size_t last_level_cache_bytes() {
  long const bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

#if MSDA_HAS_CUDA
Gpu gpu_of(std::int32_t device) {
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
    throw std::runtime_error("reading the properties of the GPU failed");
  }
  return {properties.name, 10 * properties.major + properties.minor,
          properties.multiProcessorCount};
}
#else
Gpu gpu_of(std::int32_t) { throw std::runtime_error("this command was built without CUDA"); }
#endif

bool runs_on(msda_kernel_info const& kernel, Gpu const* gpu) {
  if (kernel.sm_min == 0 || gpu == nullptr) return (kernel.sm_min == 0) == (gpu == nullptr);
  return has_code_for(MSDA_BUILD_CUDA_ARCHITECTURES, kernel.sm_min, kernel.sm_max, gpu->sm);
}

}  // namespace msda::command
