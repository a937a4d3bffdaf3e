// How many blocks and clusters of a kernel are on a device at once.
#pragma once

#include "cuda/sim_kernel.h"

namespace simt::cuda {

// On one multiprocessor.
int resident_blocks(const KernelInfo& kernel, Shape const& shape);
// On the device. The blocks of a cluster are on the multiprocessors of one cluster of processing
// units, which are assumed to be 16.
int active_clusters(const KernelInfo& kernel, Shape const& shape);

}  // namespace simt::cuda
