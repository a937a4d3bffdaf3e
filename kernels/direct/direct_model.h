// The rows of variants.inc and what is known of them without device code.
#pragma once

#include "core/family.h"
#include "kernels/common/elements.h"
#include "kernels/direct/config.h"
#include "kernels/direct/direct_costs.h"

#include <optional>

namespace msda::direct {

// What the id says.
struct Entry {
  ValueType type;
  Channels channels;
  Points points;
};

// What the lanes of a slot do for a row of the row kernel, as RowConfig in row.cuh deals them.
struct RowWork {
  std::int64_t all_vecs = 0;   // of the row
  std::int64_t vecs = 0;       // that a lane loads
  std::int64_t lanes = 0;      // of the slot
  bool split = false;          // a lane loads left or right pixels
  std::int64_t in_flight = 0;  // points whose loads are in flight
  std::int64_t chunks = 0;     // of points: each lane locates one
  std::int64_t points = 0;     // that are gathered, those that fill the last pair too
};
RowWork work_of_row(Entry const& entry, Problem const& problem);

inline constexpr VariantTable kTable({
#define MSDA_VARIANT(type, channels, points, revision, sm, architecture, ...)                 \
  VariantRow<Entry>{{.id = "direct.sm" #sm "." #type "." #channels "." #points "@" #revision, \
                     .value_dtype = dtype_of(ValueType::type),                                \
                     .sm_min = sm,                                                            \
                     .sm_max = last_sm(#architecture, 0) __VA_OPT__(, .__VA_ARGS__ = true)},  \
                    {ValueType::type, channels, points}},
#include "rows/direct.inc"
#undef MSDA_VARIANT
});

// Of FamilyModel.
Reason reject(Variant const& variant, Problem const& problem, Device const& device);
double cost(Variant const& variant, Problem const& problem, Device const& device);
std::optional<Counts> counts(Variant const& variant, Problem const& problem, Device const& device);

}  // namespace msda::direct
