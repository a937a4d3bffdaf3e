#include "command/commands/timing_choice.h"

#include "command/files/parallel.h"
#include "command/measure/machine.h"

#include <algorithm>

namespace msda::command {

namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr std::size_t kMinFlushBytes = 64 * kMebibyte;
// A machine may report the cache of far more cores than can be used here.
constexpr std::size_t kMaxFlushBytes = 256 * kMebibyte;

}  // namespace

TimingOptions timing_options(Options const& options, std::size_t default_flush_bytes) {
  TimingOptions timing;
  timing.warmup = options.warmup;
  timing.iterations = options.iterations;
  timing.seconds_limit = options.seconds;
  timing.flush_bytes = options.flush_mib ? static_cast<std::size_t>(*options.flush_mib) * kMebibyte
                                         : default_flush_bytes;
  return timing;
}

std::size_t bench_flush_bytes(Options const& options) {
  if (options.device >= 0) return kMaxFlushBytes;
  return std::clamp(2 * last_level_cache_bytes(), kMinFlushBytes, kMaxFlushBytes);
}

unsigned used_threads(Options const& options) {
  return options.threads == 0 ? hardware_threads() : static_cast<unsigned>(options.threads);
}

}  // namespace msda::command
