// The variants of this family, the problems that it takes and what they cost, and the workspace of
// a call.
#pragma once

#include "core/arena.h"
#include "core/family.h"
#include "kernels/atomic/atomic.h"

#include <cstdint>

namespace msda::atomic {

// The parts of a kernel's id beside its type: none.
struct Entry {};
inline constexpr VariantTable kTable({
#define MSDA_VARIANT(type, revision, sm, architecture, ...)                                  \
  VariantRow<Entry>{{.id = "atomic.sm" #sm "." #type "@" #revision,                          \
                     .value_dtype = dtype_of(ValueType::type),                               \
                     .sm_min = sm,                                                           \
                     .sm_max = last_sm(#architecture, 0) __VA_OPT__(, .__VA_ARGS__ = true)}, \
                    {}},
#include "rows/atomic.inc"
#undef MSDA_VARIANT
});

// The constants of the predictions.
struct Costs {
#define MSDA_COST(name, value) double name = value;
#include "kernels/atomic/costs.inc"
#undef MSDA_COST
};

// Predicted microseconds with these constants; the family's own are those of Costs{}.
double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device);

// The functions of Family.
Reason reject(Variant const& variant, Problem const& problem, Device const& device);
double cost(Variant const& variant, Problem const& problem, Device const& device);

std::int64_t value_elements(Problem const& problem);
std::int64_t row_count(Problem const& problem);

struct Workspace {
  float* sums = nullptr;     // [B][S][M][D], where grad_value is not of float32
  float* weights = nullptr;  // fused: [B][Q][M][K]
  float* raw = nullptr;      // fused: [B][Q][M][K][3]

  Workspace(Problem const& problem, Arena& arena);
};
void workspace(Variant const& variant, Problem const& problem, Device const& device, Arena& arena);

}  // namespace msda::atomic
