// What the command says of the machine it measures on.
#pragma once

#include <cstddef>
#include <string>

namespace msda::cli {

std::string cpu_name();
unsigned hardware_threads();
std::size_t last_level_cache_bytes();  // 0: unknown

}  // namespace msda::cli
