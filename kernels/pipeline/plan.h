// The rows of variants.inc, and what is known of them without device code.
#pragma once

#include "core/family.h"
#include "kernels/pipeline/pipeline.h"

namespace msda::pipeline {

// The parts of a kernel's id.
struct Entry {
  Channels channels;
  Stages stages;
};
inline constexpr VariantTable kTable({
#define MSDA_VARIANT(type, channels, stages, revision, sm, architecture, ...)                   \
  VariantRow<Entry>{{.id = "pipeline.sm" #sm "." #type "." #channels "." #stages "@" #revision, \
                     .value_dtype = dtype_of(ValueType::type),                                  \
                     .sm_min = sm,                                                              \
                     .sm_max = last_sm(#architecture, 0) __VA_OPT__(, .__VA_ARGS__ = true)},    \
                    {channels, stages}},
#include "rows/pipeline.inc"
#undef MSDA_VARIANT
});

// The constants of the predictions.
struct Costs {
#define MSDA_COST(name, value) double name = value;
#include "kernels/pipeline/costs.inc"
#undef MSDA_COST
};

// Predicted microseconds with these constants; the family's own are those of Costs{}.
double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device);

// The functions of Family.
Reason reject(Variant const& variant, Problem const& problem, Device const& device);
double cost(Variant const& variant, Problem const& problem, Device const& device);

}  // namespace msda::pipeline
