// What the process has not given back when it ends.
#pragma once

namespace simt::cuda {

// As Settings::leaks says.
void report_leaks_at_exit();

}  // namespace simt::cuda
