// Kernels: what can be asked of them, and launches.
#pragma once

#include "cuda/sim_state.h"
#include "runtime/kernel_launch.h"

// What a cudaKernel_t points to.
struct CUkern_st {
  const simt::KernelInfo* info = nullptr;
};

namespace simt::cuda {

struct alignas(128) ParameterBytes {
  std::byte bytes[64];
};

// A launch with a copy of the arguments.
struct KernelCall {
  Launch launch;
  std::vector<ParameterBytes> storage;
  std::vector<void*> parameters;
};

// What was asked for a kernel on a device.
struct KernelChoices {
  std::size_t max_dynamic_shared = 0;
  bool allows_large_clusters = false;  // not portable ones
  int carveout = -1;
};

// Null where `function` is neither a kernel nor a cudaKernel_t.
const KernelInfo* find_function(const void* function);
KernelChoices& choices_of(const KernelInfo& kernel, int device);
// Assumed of every kernel: as many as its largest block can have.
int registers_per_thread(const KernelInfo& kernel);
// Shared memory of a block that it declares.
std::size_t declared_shared_bytes(const KernelInfo& kernel);

struct Shape {
  dim3 grid, block, cluster{1, 1, 1};
  std::size_t dynamic_shared = 0;
  bool overlaps_previous = false;
};
// What the attributes of a launch say; cudaErrorInvalidValue for one that is not known.
cudaError_t read_config(cudaLaunchConfig_t const& config, Shape& shape);
// Whether the current device can run it.
cudaError_t check_shape(const KernelInfo& kernel, Shape const& shape);

// Runs a chain of kernels of one device, without the library's lock.
cudaError_t run_kernel_chain(int device, std::span<const KernelCall* const> chain);

}  // namespace simt::cuda
