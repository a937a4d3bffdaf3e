// The rows of variants.inc, and what is known of them without device code.
#pragma once

#include "core/family.h"
#include "kernels/persistent/persistent.h"
#include "kernels/rows/row_plan.h"

#include <array>
#include <optional>

namespace msda::persistent {

using rows::Entry;
using rows::QueryOrder;

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

// The constants of the predictions.
struct Costs {
#define MSDA_COST(name, value) double name = value;
#include "kernels/persistent/costs.inc"
#undef MSDA_COST
};

// Predicted microseconds with these constants; the family's own are those of Costs{}.
double predicted_us(Costs const& costs, Variant const& variant, Problem const& problem,
                    Device const& device);

// The functions of FamilyModel.
Reason reject(Variant const& variant, Problem const& problem, Device const& device);
double cost(Variant const& variant, Problem const& problem, Device const& device);
std::optional<Counts> counts(Variant const& variant, Problem const& problem, Device const& device);

// A warp's work for a job, padding included.
struct JobWork {
  std::int64_t vecs;         // of a row, of each lane
  std::int64_t group;        // points that a lane prepares before they are gathered
  std::int64_t chunks = 0;   // for which lanes prepare points, and then gather them
  std::int64_t turns = 0;    // in which every lane prepares a point
  std::int64_t records = 0;  // of each slot, that its lanes read and load the corners of
  std::int64_t waits = 0;    // for loads in flight
};
JobWork work_of_job(Entry const& entry, Problem const& problem);

// The heads of the problem, where a kernel may know them: see Heads.
Heads known_heads(Entry const& entry, Problem const& problem);

// ---- which levels a block caches in shared memory, and where

struct CachedLevels {
  std::uint32_t levels = 0;                         // bit l for level l
  std::array<std::int64_t, kInlineLevels> begin{};  // of each, a multiple of kLineBytes
  std::array<std::int64_t, kInlineLevels> bytes{};  // of each
  std::int64_t end = 0;                             // of all

  // The kernel begins at a whole line.
  std::int64_t shared_bytes() const { return end + kLineBytes; }
};

// The smallest levels, as many as fit kMaxCachedBytes. A pixel there has `pixel_bytes`.
CachedLevels choose_cached_levels(Problem const& problem, std::int64_t pixel_bytes);

// The schedule of a problem that the variant takes: with cached levels where the variant has them.
ScheduleParams schedule_of(Variant const& variant, Problem const& problem, QueryOrder const& order,
                           Device const& device);

}  // namespace msda::persistent
