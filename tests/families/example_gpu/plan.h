// The variants of this family.
#pragma once

#include "kernels/common/plan.h"
#include "tests/families/example_gpu/example_gpu.h"

namespace msda::example_gpu {

inline constexpr VariantTable kTable({
#define MSDA_VARIANT(type, ...) VariantRow<>{MSDA_VARIANT_OF("example_gpu", type, "", __VA_ARGS__)},
#include "rows/example_gpu.inc"
#undef MSDA_VARIANT
});

extern const FamilyModel kModel;

}  // namespace msda::example_gpu
