// Tensor maps of the values, as the kernels are handed them. Host and device read it; cuda.h, which
// it needs, is not there in builds without CUDA.
#pragma once

#include "kernels/common/params.h"

#include <cuda.h>

namespace msda::tma {

// A map a level, of channels, x, y, head and batch item, without the border.
struct Maps {
  CUtensorMap level[kInlineLevels];
};

}  // namespace msda::tma
