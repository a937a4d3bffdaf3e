#include "cuda/sim_occupancy.h"

#include "cuda/sim_call.h"
#include "cuda/sim_capability.h"

#include <algorithm>

namespace simt::cuda {
namespace {

constexpr int kSmsPerGpc = 16;

int product(dim3 d) { return static_cast<int>(d.x * d.y * d.z); }

cudaError_t max_active_blocks(int* count, const void* function, int threads,
                              std::size_t dynamic_shared) {
  return api("cudaOccupancyMaxActiveBlocksPerMultiprocessor", Needs::kDevice, [&](Lock&) {
    const KernelInfo* const kernel = find_function(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    if (count == nullptr || threads <= 0) return cudaErrorInvalidValue;
    Shape shape;
    shape.block = dim3(static_cast<unsigned>(threads));
    shape.dynamic_shared = dynamic_shared;
    bool const is_too_large = threads > static_cast<int>(kernel->max_threads);
    *count = is_too_large ? 0 : resident_blocks(*kernel, shape);
    return cudaSuccess;
  });
}

}  // namespace

int resident_blocks(const KernelInfo& kernel, Shape const& shape) {
  int const capability = state().settings.capability;
  Capability const& row = capability_row(capability);
  int const warps = (product(shape.block) + 31) / 32;
  int const registers = (registers_per_thread(kernel) + 7) / 8 * 8 * 32 * warps;
  std::size_t const reserved = capability >= 80 ? kReservedShared : 0;
  std::size_t const shared = declared_shared_bytes(kernel) + shape.dynamic_shared;
  if (shared > row.shared_per_block_optin) return 0;
  int blocks = std::min(row.blocks_per_sm, row.threads_per_sm / (32 * warps));
  blocks = std::min(blocks, std::max(1, kRegistersPerSm / registers));
  if (shared + reserved == 0) return blocks;
  return std::min(blocks, static_cast<int>(row.shared_per_sm / (shared + reserved)));
}

int active_clusters(const KernelInfo& kernel, Shape const& shape) {
  int const blocks = resident_blocks(kernel, shape);
  int const cluster = product(shape.cluster);
  int clusters = 0;
  for (int left = state().settings.sm_count; left > 0; left -= kSmsPerGpc) {
    clusters += std::min(left, kSmsPerGpc) * blocks / cluster;
  }
  return clusters;
}

}  // namespace simt::cuda

using namespace simt::cuda;

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* count, const void* function,
                                                          int threads, std::size_t dynamic_shared) {
  return max_active_blocks(count, function, threads, dynamic_shared);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* count, const void* function,
                                                                   int threads,
                                                                   std::size_t dynamic_shared,
                                                                   unsigned) {
  return max_active_blocks(count, function, threads, dynamic_shared);
}

cudaError_t cudaOccupancyMaxActiveClusters(int* count, const void* function,
                                           const cudaLaunchConfig_t* config) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    const simt::KernelInfo* const kernel = find_function(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    if (count == nullptr || config == nullptr) return cudaErrorInvalidValue;
    Shape shape;
    cudaError_t const error = read_config(*config, shape);
    if (error != cudaSuccess) return error;
    if (!capability_row(state().settings.capability).has_clusters) return cudaErrorNotSupported;
    *count = active_clusters(*kernel, shape);
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void* function,
                                                 const cudaLaunchConfig_t* config) {
  return api(__func__, Needs::kDevice, [&](Lock&) {
    const simt::KernelInfo* const kernel = find_function(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    if (size == nullptr || config == nullptr) return cudaErrorInvalidValue;
    Shape shape;
    cudaError_t const error = read_config(*config, shape);
    if (error != cudaSuccess) return error;
    if (!capability_row(state().settings.capability).has_clusters) return cudaErrorNotSupported;
    bool const is_large = choices_of(*kernel, current_device()).allows_large_clusters;
    int const gpc = std::min(state().settings.sm_count, kSmsPerGpc);
    *size = std::min(gpc * resident_blocks(*kernel, shape),
                     is_large ? kMaxClusterBlocks : kPortableClusterBlocks);
    return cudaSuccess;
  });
}
