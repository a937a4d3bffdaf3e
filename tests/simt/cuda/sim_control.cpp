#include "cuda/sim_control.h"

#include "cuda/sim_memory.h"
#include "cuda/sim_state.h"

namespace simt::cuda {

Settings settings() {
  Lock const lock(state().mutex);
  return state().settings;
}

void set_settings(Settings const& settings) {
  Lock const lock(state().mutex);
  state().settings = settings;
}

void inject_error(std::string const& function, int n, cudaError_t error) {
  Lock const lock(state().mutex);
  state().injections.push_back({function, n, error});
}

void inject_kernel_failure(std::string const& name, int n, cudaError_t error) {
  Lock const lock(state().mutex);
  state().kernel_failures.push_back({name, n, error});
}

void clear_injections() {
  Lock const lock(state().mutex);
  state().injections.clear();
  state().kernel_failures.clear();
}

Held held() {
  Lock const lock(state().mutex);
  Held held;
  for (Allocation const& a : live_allocations()) {
    ++held.allocations;
    if (a.kind == MemoryKind::kDevice || a.kind == MemoryKind::kManaged) {
      held.device_bytes += a.bytes;
    }
  }
  held.streams = state().streams.size();
  held.events = state().events.size();
  held.graphs = state().graphs.size();
  held.graph_execs = state().graph_execs.size();
  return held;
}

}  // namespace simt::cuda
