// The host's time, as a function that tests can replace: no test then depends on how busy the
// machine is.
#pragma once

#include <chrono>

namespace msda {

// Microseconds since some moment, never fewer than before.
using Clock = double (*)();

inline double steady_us() {
  auto const since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(since).count();
}

}  // namespace msda
