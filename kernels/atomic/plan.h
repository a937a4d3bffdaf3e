// The variants of this family, the problems that it takes and what they cost, and the workspace of
// a call.
#pragma once

#include "kernels/atomic/atomic.h"
#include "kernels/common/plan.h"

namespace msda::atomic {

inline constexpr VariantTable kTable({
#define MSDA_VARIANT(type, ...) VariantRow<>{MSDA_VARIANT_OF("atomic", type, "", __VA_ARGS__)},
#include "rows/atomic.inc"
#undef MSDA_VARIANT
});

// Takes the arrays of AddParams that lie in the workspace: sums, where grad_value is not of
// float32, and of fused points weights, gradients and by_pixel.
void take_arrays(AddParams& params, Problem const& problem, Arena& arena);

}  // namespace msda::atomic
