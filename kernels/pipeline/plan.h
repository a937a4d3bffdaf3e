// The family's model: the rows of variants.inc, which problems they take and what they cost. It
// needs no device code.
#pragma once

#include "kernels/common/plan.h"
#include "kernels/pipeline/pipeline.h"

namespace msda::pipeline {

// The parts of a kernel's id.
struct Entry {
  Channels channels;
  Stages stages;
};
inline constexpr VariantTable kTable({
#define MSDA_VARIANT(type, channels, stages, ...)                                              \
  VariantRow<Entry>{MSDA_VARIANT_OF("pipeline", type, "." #channels "." #stages, __VA_ARGS__), \
                    {channels, stages}},
#include "rows/pipeline.inc"
#undef MSDA_VARIANT
});

}  // namespace msda::pipeline
