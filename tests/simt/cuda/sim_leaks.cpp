#include "cuda/sim_leaks.h"

#include "cuda/sim_control.h"

#include <cstdio>
#include <cstdlib>

#include <unistd.h>

namespace simt::cuda {
namespace {

constexpr int kLeakStatus = 86;

void report() {
  LeakPolicy const policy = settings().leaks;
  if (policy == LeakPolicy::kIgnore) return;
  Held const left = held();
  std::size_t const things =
      left.allocations + left.streams + left.events + left.graphs + left.graph_execs;
  if (things == 0) return;
  std::fprintf(stderr,
               "simulated CUDA: left behind are %zu allocations (%zu bytes on devices), %zu "
               "streams, %zu events, %zu graphs, %zu executable graphs\n",
               left.allocations, left.device_bytes, left.streams, left.events, left.graphs,
               left.graph_execs);
  if (policy != LeakPolicy::kFail) return;
  std::fflush(nullptr);
  _exit(kLeakStatus);
}

}  // namespace

void report_leaks_at_exit() { std::atexit(report); }

}  // namespace simt::cuda
