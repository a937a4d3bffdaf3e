// The words of a report about the machine that was measured on; its CPU: core/cpu_model.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace msda::command {

// A GPU that a handle can be created for.
struct Gpu {
  std::string name;
  std::int32_t sm;  // compute capability times ten
  std::int32_t sm_count;
};
Gpu gpu_of(std::int32_t device);

// Whether a kernel for devices of compute capability sm_min / 10 to sm_max / 10 (0: no end) has
// code that a device of `sm` runs, in a build for `architectures`: a list as
// CMAKE_CUDA_ARCHITECTURES has it, such as "75-real;90a-real;120-virtual".
bool has_code_for(std::string_view architectures, std::int32_t sm_min, std::int32_t sm_max,
                  std::int32_t sm);

}  // namespace msda::command
