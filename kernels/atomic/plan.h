// The variants of this family, the problems that it takes and what they cost, and the workspace of
// a call.
#pragma once

#include "kernels/atomic/atomic.h"
#include "kernels/common/plan.h"

namespace msda::atomic {

// The parts of a kernel's id beside its type: none.
struct Entry {};
inline constexpr VariantTable kTable({
#define MSDA_VARIANT(type, ...) \
  VariantRow<Entry>{MSDA_VARIANT_OF("atomic", type, "", __VA_ARGS__), {}},
#include "rows/atomic.inc"
#undef MSDA_VARIANT
});

struct Workspace {
  float* sums = nullptr;       // [B][S][M][D], where grad_value is not of float32
  float* weights = nullptr;    // fused: [B][Q][M][K]
  float* gradients = nullptr;  // of weights, as many
  float* by_pixel = nullptr;   // fused: [B][Q][M][K][2]

  Workspace(Problem const& problem, Arena& arena);
};

}  // namespace msda::atomic
