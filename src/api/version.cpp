// Facts about the library and the text of errors.

#include "api/guard.h"
#include "core/build_config.h"
#include "core/status.h"
#include "cpu/simd_targets.h"

#include <fmt/core.h>
#include <msda.h>

#include <string>

namespace msda {
namespace {

// One line: version, ABI, compiler, target, CPU kernels' instruction sets, CUDA. Made on first use
// and never freed: msda_build_info() promises a text as long as the library lives.
const char* build_info() {
  static std::string const* const text = new std::string(
      fmt::format("libmsda {}.{}.{} (ABI {}); {}, {}, {}{}; CPU kernels for {}; CUDA: {}",
                  MSDA_VERSION_MAJOR, MSDA_VERSION_MINOR, MSDA_VERSION_PATCH, MSDA_ABI_VERSION,
                  MSDA_BUILD_TARGET, MSDA_BUILD_COMPILER, MSDA_BUILD_TYPE,
                  sizeof(MSDA_BUILD_SANITIZE) > 1 ? ", sanitizers: " MSDA_BUILD_SANITIZE : "",
                  simd_targets(), MSDA_BUILD_CUDA));
  return text->c_str();
}

}  // namespace
}  // namespace msda

uint32_t msda_version(void) {
  return MSDA_VERSION_MAJOR * 10000u + MSDA_VERSION_MINOR * 100u + MSDA_VERSION_PATCH;
}

uint32_t msda_abi_version(void) { return MSDA_ABI_VERSION; }

const char* msda_build_info(void) {
  const char* text = "";  // where memory ran out
  msda::api::guard("msda_build_info", nullptr, [&] { text = msda::build_info(); });
  return text;
}

const char* msda_status_name(msda_status status) { return msda::status_name(status); }

const char* msda_last_error(void) { return msda::last_error(); }
