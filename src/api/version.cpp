// Facts about the library and the text of errors.

#include "api/build_info.h"
#include "api/guard.h"
#include "core/status.h"

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
