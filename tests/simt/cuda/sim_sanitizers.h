// runtime/sanitizers.h, for this library: it is instrumented like everything but the runtime, so
// the compiler knows the sanitizer.
#pragma once

#if defined(__SANITIZE_ADDRESS__) && !defined(MSDA_SIMT_ASAN)
#define MSDA_SIMT_ASAN 1
#elif defined(__SANITIZE_THREAD__) && !defined(MSDA_SIMT_TSAN)
#define MSDA_SIMT_TSAN 1
#endif

#include "runtime/sanitizers.h"
