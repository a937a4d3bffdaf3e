// Which GPUs the device code of a build runs on.
#pragma once

#include <cstdint>
#include <string_view>

namespace msda::command {

// Whether a kernel for devices of compute capability sm_min / 10 to sm_max / 10 (0: no end) has
// code that a device of `sm` runs, in a build for `architectures`: a list as
// CMAKE_CUDA_ARCHITECTURES has it, such as "75-real;90a-real;120-virtual".
bool has_code_for(std::string_view architectures, std::int32_t sm_min, std::int32_t sm_max,
                  std::int32_t sm);

}  // namespace msda::command
