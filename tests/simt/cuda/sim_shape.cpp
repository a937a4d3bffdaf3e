// Whether a device can run a launch: sizes of grid, block, cluster and shared memory.
#include "cuda/sim_capability.h"
#include "cuda/sim_kernel.h"
#include "cuda/sim_occupancy.h"

#include <algorithm>

namespace simt::cuda {
namespace {

bool is_empty(dim3 d) { return d.x == 0 || d.y == 0 || d.z == 0; }
std::size_t volume(dim3 d) { return std::size_t{d.x} * d.y * d.z; }

cudaError_t check_cluster(const KernelInfo& kernel, Shape const& shape) {
  std::size_t const blocks = volume(shape.cluster);
  if (blocks == 1) return cudaSuccess;
  if (!capability_row(state().settings.capability).has_clusters) return cudaErrorNotSupported;
  bool const divides = shape.grid.x % shape.cluster.x == 0 && shape.grid.y % shape.cluster.y == 0 &&
                       shape.grid.z % shape.cluster.z == 0;
  bool const allows_large = choices_of(kernel, current_device()).allows_large_clusters;
  auto const most =
      static_cast<std::size_t>(allows_large ? kMaxClusterBlocks : kPortableClusterBlocks);
  if (!divides || blocks > most) return cudaErrorInvalidClusterSize;
  // All blocks of a cluster are on the device at once.
  return active_clusters(kernel, shape) > 0 ? cudaSuccess : cudaErrorInvalidClusterSize;
}

}  // namespace

cudaError_t read_config(cudaLaunchConfig_t const& config, Shape& shape) {
  shape.grid = config.gridDim;
  shape.block = config.blockDim;
  shape.dynamic_shared = config.dynamicSmemBytes;
  if (config.numAttrs > 0 && config.attrs == nullptr) return cudaErrorInvalidValue;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    cudaLaunchAttributeValue const& value = config.attrs[i].val;
    switch (config.attrs[i].id) {
      case cudaLaunchAttributeClusterDimension:
        shape.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
        if (is_empty(shape.cluster)) return cudaErrorInvalidValue;
        break;
      case cudaLaunchAttributeProgrammaticStreamSerialization:
        shape.overlaps_previous =
            value.programmaticStreamSerializationAllowed != 0 && state().settings.capability >= 90;
        break;
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributePriority:
      case cudaLaunchAttributeAccessPolicyWindow:
      case cudaLaunchAttributeClusterSchedulingPolicyPreference:
      case cudaLaunchAttributePreferredSharedMemoryCarveout:
        break;
      default:
        return cudaErrorNotSupported;  // none that the simulated device knows
    }
  }
  return cudaSuccess;
}

cudaError_t check_shape(const KernelInfo& kernel, Shape const& shape) {
  bool const fits = shape.block.x <= 1024 && shape.block.y <= 1024 && shape.block.z <= 64 &&
                    volume(shape.block) <= kMaxThreadsPerBlock && shape.grid.x <= 0x7fffffffu &&
                    shape.grid.y <= 65535 && shape.grid.z <= 65535;
  if (is_empty(shape.grid) || is_empty(shape.block) || !fits) return cudaErrorInvalidConfiguration;
  if (volume(shape.block) > kernel.max_threads) return cudaErrorLaunchOutOfResources;
  std::size_t const declared = declared_shared_bytes(kernel);
  std::size_t const asked = choices_of(kernel, current_device()).max_dynamic_shared;
  std::size_t const without_asking = kSharedPerBlock - std::min(kSharedPerBlock, declared);
  if (shape.dynamic_shared > std::max(asked, without_asking)) return cudaErrorInvalidValue;
  if (resident_blocks(kernel, shape) == 0) return cudaErrorLaunchOutOfResources;
  return check_cluster(kernel, shape);
}

}  // namespace simt::cuda
