// The rows of variants.inc, one kernel id for each size of a cluster, and what is known of them
// without device code.
#pragma once

#include "core/family.h"
#include "kernels/cluster/cluster_config.h"
#include "kernels/cluster/cluster_costs.h"
#include "kernels/cluster/kept_levels.h"
#include "kernels/persistent/entry.h"

namespace msda::cluster {

// What the id says.
struct Entry {
  persistent::Entry rows;
  std::int32_t size;  // blocks of a cluster
};

// Calls row(size, ...) for each size of a row of variants.inc.
#define MSDA_ROWS_size_2(row, ...) row(2, __VA_ARGS__)
#define MSDA_ROWS_all_sizes(row, ...)                                             \
  row(1, __VA_ARGS__) row(2, __VA_ARGS__) row(4, __VA_ARGS__) row(8, __VA_ARGS__) \
      row(16, __VA_ARGS__)

#define MSDA_VARIANT(type, channels, points, spread, sizes, ...) \
  MSDA_ROWS_##sizes(MSDA_ROW, type, channels, points, spread, __VA_ARGS__)
#define MSDA_ROW(size, type, channels, points, spread, revision, sm, architecture, ...)  \
  VariantRow<Entry>{                                                                     \
      {.id = "cluster.sm" #sm "." #type "." #channels "." #points "." #spread ".c" #size \
             "@" #revision,                                                              \
       .value_dtype = dtype_of(ValueType::type),                                         \
       .sm_min = sm,                                                                     \
       .sm_max = last_sm(#architecture, 0) __VA_OPT__(, .__VA_ARGS__ = true)},           \
      {{ValueType::type, persistent::channels, persistent::points, persistent::spread}, size}},
inline constexpr VariantTable kTable({
#include "rows/cluster.inc"
});
#undef MSDA_ROW
#undef MSDA_VARIANT

// Of Family.
Reason reject(Variant const& variant, Problem const& problem, Device const& device);
std::string numbers_of(Reason reason, Variant const& variant, Problem const& problem,
                       Device const& device);
double cost(Variant const& variant, Problem const& problem, Device const& device);

// The levels that the variant keeps of a problem.
KeptLevels kept_levels_of(Entry const& entry, Problem const& problem);

}  // namespace msda::cluster
