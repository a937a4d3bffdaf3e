// The smallest family of a GPU, with every file that one has: what a new family begins with. This
// header is what host and device share, without CUDA's headers.
#pragma once

#include "kernels/common/params.h"

namespace msda::example_gpu {

inline constexpr std::int32_t kThreads = 128;  // of a block

// A plan loads its kernel by this. CUDA files instantiate it for each row of variants.inc.
template <ValueType kType>
Kernel<Params> load_rows();

}  // namespace msda::example_gpu
