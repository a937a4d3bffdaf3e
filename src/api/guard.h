// The only way out of the library: runs the body of an entry point and turns whatever it throws
// into a status, the thread's last error and a log line.
#pragma once

#include "core/log.h"
#include "core/status.h"

#include <exception>
#include <new>
#include <string_view>

namespace msda::api {

inline msda_status report(std::string_view function, Log const* log, msda_status status,
                          std::string_view message) noexcept {
  set_last_error(function, message);
  if (log != nullptr) log->text(MSDA_LOG_ERROR, last_error());
  return status;
}

// `log` may be null: an error before there is a handle is not logged.
template <typename Body>
msda_status guard(std::string_view function, Log const* log, Body&& body) noexcept {
  try {
    body();
    return MSDA_SUCCESS;
  } catch (StatusError const& error) {
    return report(function, log, error.status(), error.what());
  } catch (std::bad_alloc const&) {
    return report(function, log, MSDA_ERROR_OUT_OF_MEMORY, "host memory could not be allocated");
  } catch (std::exception const& error) {
    return report(function, log, MSDA_ERROR_INTERNAL, error.what());
  } catch (...) {
    return report(function, log, MSDA_ERROR_INTERNAL, "an unknown exception");
  }
}

}  // namespace msda::api
