// Words for what went wrong.
#pragma once

#include "runtime/launch.h"

namespace simt {

// Of a run whose threads all wait: who waits where.
Failure report_deadlock();

}  // namespace simt
