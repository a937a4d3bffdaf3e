// The attention weights of fused input as a result of their own, the softmax of the logits: a
// kernel that the forwards of all families launch beside theirs where a call asks for it. Their own
// kernels have a row's softmax chunk by chunk, and would read or write the weights once more to
// store them.
#pragma once

#include "kernels/common/params.h"

namespace msda::attention {

inline constexpr std::int32_t kThreads = 256;  // a warp a row

// The kernel of a plan and its launch; no block where the problem has no such result.
struct Writer {
  Kernel<Params> kernel;
  std::int64_t blocks = 0;
};

// Real: double for logits of float64, float for those of any other type.
template <typename Real>
Kernel<Params> load();

}  // namespace msda::attention
