// Words for what went wrong.
#pragma once

#include "runtime/kernel_launch.h"

namespace simt {

// A run's threads all wait: says who waits where.
Failure report_deadlock();

// When a sanitizer ends the process, the thread that runs then and the command that repeats it are
// printed behind its report.
void name_thread_in_sanitizer_reports();

}  // namespace simt
