#include "cli/machine.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

namespace msda::cli {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    std::size_t const colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown CPU";
}

unsigned hardware_threads() { return std::max(1u, std::thread::hardware_concurrency()); }

std::size_t last_level_cache_bytes() {
  long const bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 0;
}

}  // namespace msda::cli
