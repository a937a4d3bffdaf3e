#include "api/build_info.h"

#include "core/build_config.h"
#include "cpu/simd_targets.h"

#include <fmt/core.h>
#include <msda.h>

#include <string>

namespace msda {

const char* build_info() {
  // Made on first use and never freed: msda_build_info() promises a text as long as the library
  // lives.
  static std::string const* const text = new std::string(
      fmt::format("libmsda {}.{}.{} (ABI {}); {}, {}, {}{}; CPU kernels for {}; CUDA: {}",
                  MSDA_VERSION_MAJOR, MSDA_VERSION_MINOR, MSDA_VERSION_PATCH, MSDA_ABI_VERSION,
                  MSDA_BUILD_TARGET, MSDA_BUILD_COMPILER, MSDA_BUILD_TYPE,
                  sizeof(MSDA_BUILD_SANITIZE) > 1 ? ", sanitizers: " MSDA_BUILD_SANITIZE : "",
                  simd_targets(), MSDA_BUILD_CUDA));
  return text->c_str();
}

}  // namespace msda
