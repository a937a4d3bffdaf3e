// The family's model: the rows of variants.inc, which problems they take and what they cost. It
// needs no device code.
#pragma once

#include "kernels/persistent/persistent.h"
#include "kernels/rows/plan.h"

namespace msda::persistent {

inline constexpr VariantTable kTable({
#define MSDA_VARIANT(type, channels, points, spread, ...)                                      \
  VariantRow<Entry>{                                                                           \
      MSDA_VARIANT_OF("persistent", type, "." #channels "." #points "." #spread, __VA_ARGS__), \
      {ValueType::type, channels, points, spread}},
#include "rows/persistent.inc"
#undef MSDA_VARIANT
});

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
