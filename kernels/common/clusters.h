// The number of clusters of a kernel that a device runs at a time; a plan asks for it.
#pragma once

#include "kernels/common/launch.h"

namespace msda {

// The clusters with the threads, shared memory and cluster_blocks of `options` that the current
// device runs at a time; 0 where it runs none. The kernel may have sizes that are not portable from
// here on.
template <typename... Parameters>
std::int32_t max_active_clusters(void (*kernel)(Parameters...), LaunchOptions const& options) {
  constexpr std::int32_t kPortableBlocks = 8;
  auto const* const entry = kernel_entry(kernel);
  if (options.cluster_blocks > kPortableBlocks) {
    cuda::check(cudaFuncSetAttribute(entry, cudaFuncAttributeNonPortableClusterSizeAllowed, 1),
                "asking for large clusters");
  }
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(options.cluster_blocks), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(options.cluster_blocks));
  config.blockDim = dim3(static_cast<unsigned>(options.threads));
  config.dynamicSmemBytes = options.shared_bytes;
  config.attrs = &cluster;
  config.numAttrs = 1;
  int count = 0;
  cuda::check(cudaOccupancyMaxActiveClusters(&count, entry, &config), "counting clusters");
  return count;
}

}  // namespace msda
