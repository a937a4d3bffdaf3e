// The rows of variants.inc and what is known of them without device code.
#pragma once

#include "core/family.h"
#include "kernels/persistent/entry.h"
#include "kernels/persistent/persistent_costs.h"

#include <optional>

namespace msda::persistent {

inline constexpr VariantTable kTable({
#define MSDA_VARIANT(type, channels, points, spread, revision, sm, architecture, ...)           \
  VariantRow<Entry>{                                                                            \
      {.id = "persistent.sm" #sm "." #type "." #channels "." #points "." #spread "@" #revision, \
       .value_dtype = dtype_of(ValueType::type),                                                \
       .sm_min = sm,                                                                            \
       .sm_max = last_sm(#architecture, 0) __VA_OPT__(, .__VA_ARGS__ = true)},                  \
      {ValueType::type, channels, points, spread}},
#include "rows/persistent.inc"
#undef MSDA_VARIANT
});

// Of FamilyModel.
Reason reject(Variant const& variant, Problem const& problem, Device const& device);
double cost(Variant const& variant, Problem const& problem, Device const& device);
std::optional<Counts> counts(Variant const& variant, Problem const& problem, Device const& device);

// What a warp does for a job, padding included.
struct JobWork {
  std::int64_t vecs;         // of a row, of each lane
  std::int64_t batch;        // points that a lane prepares before they are gathered
  std::int64_t chunks = 0;   // for which lanes prepare points, and then gather them
  std::int64_t turns = 0;    // in which every lane prepares a point
  std::int64_t records = 0;  // of each slot, that its lanes read and load the corners of
  std::int64_t waits = 0;    // for loads in flight
};
JobWork work_of_job(Entry const& entry, Problem const& problem);

// Rows come in whole batches of a lane, so that inputs can be loaded in vectors.
bool batches_are_whole(Entry const& entry, Problem const& problem);
// The heads of the problem, where a kernel may know them: see Heads.
Heads known_heads(Entry const& entry, Problem const& problem);

}  // namespace msda::persistent
