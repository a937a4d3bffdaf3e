#include "command/measure/machine.h"

#include "core/build_config.h"
#include "core/join.h"

#include <charconv>
#include <stdexcept>

#if MSDA_HAS_CUDA
#include <cuda_runtime_api.h>
#endif

namespace msda::command {
namespace {

struct Architecture {
  std::int32_t sm = 0;
  char kind = 0;  // 'a': that device alone; 'f': its family; 0: all that are like it
  bool has_ptx = true;
  bool has_binary = true;
};

Architecture architecture_of(std::string_view text) {
  Architecture architecture;
  char const* const end =
      std::from_chars(text.data(), text.data() + text.size(), architecture.sm).ptr;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with('a') || text.starts_with('f')) {
    architecture.kind = text.front();
    text.remove_prefix(1);
  }
  architecture.has_ptx = text != "-real";
  architecture.has_binary = text != "-virtual";
  return architecture;
}

bool runs_on(Architecture const& architecture, std::int32_t sm) {
  bool const same_generation = architecture.sm / 10 == sm / 10 && sm >= architecture.sm;
  if (architecture.kind == 'a') return sm == architecture.sm;
  if (architecture.kind == 'f') return same_generation;
  return (architecture.has_binary && same_generation) ||
         (architecture.has_ptx && sm >= architecture.sm);
}

}  // namespace

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

bool has_code_for(std::string_view architectures, std::int32_t sm_min, std::int32_t sm_max,
                  std::int32_t sm) {
  if (sm < sm_min || (sm_max != 0 && sm > sm_max)) return false;
  bool has_any = false;
  for (std::string_view const text : split(architectures, ';')) {
    Architecture const architecture = architecture_of(text);
    if (architecture.sm < sm_min) continue;  // the kernel is not compiled for it
    if (runs_on(architecture, sm)) return true;
    has_any = true;
  }
  // A kernel that none of the architectures is for is compiled to PTX of its own least one.
  return !has_any;
}

}  // namespace msda::command
