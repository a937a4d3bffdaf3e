// The name of this machine's processor.
#pragma once

#include <string>

namespace msda {

// As the kernel of the operating system names it, "AMD EPYC 9454 48-Core Processor"; "unknown"
// where it does not. Of CPUs without a name, such as Arm's, the numbers of their maker and model.
std::string cpu_model();

}  // namespace msda
