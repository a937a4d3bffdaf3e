// A row of variants.inc, and what a problem is to it.
#pragma once

#include "core/dtype.h"
#include "core/problem.h"
#include "kernels/persistent/layout.h"

#include <algorithm>

namespace msda::persistent {

// What the id says.
struct Entry {
  ValueType type;
  Channels channels;
  Points points;
  Spread spread;
};

inline std::int64_t item_bytes(Problem const& problem) {
  return problem.token_count * problem.value.row * dtype_bytes(problem.value_dtype);
}

inline double value_bytes(Problem const& problem) {
  return static_cast<double>(item_bytes(problem)) * static_cast<double>(problem.batch);
}

inline std::int32_t element_bytes(Problem const& problem) {
  return static_cast<std::int32_t>(dtype_bytes(problem.value_dtype));
}

inline bool is_grouped(Entry const& entry, Problem const& problem) {
  return problem.head_count % heads_of_line(entry.channels, element_bytes(problem)) == 0;
}

inline Layout layout_for(Entry const& entry, Problem const& problem) {
  return layout_of(entry.channels, element_bytes(problem), entry.spread,
                   is_grouped(entry, problem));
}

struct Jobs {
  std::int64_t of_group;
  std::int64_t of_item;
};

inline Jobs jobs_of(Entry const& entry, Problem const& problem) {
  Layout const layout = layout_for(entry, problem);
  std::int64_t const of_group = (problem.query_count + layout.queries - 1) / layout.queries;
  return {of_group, of_group * (problem.head_count / layout.heads)};
}

inline constexpr std::int64_t kExactTokens = 1 << 24;  // that float32 counts

// Levels that the fast path cannot sum.
inline bool needs_exact_path(Problem const& problem) {
  return std::ranges::any_of(problem.levels, [](Level const& level) {
    return level.width < 1 || level.height < 1 ||
           level.row_tokens * (level.height + 2) >= kExactTokens;
  });
}

// Bytes of a pixel's channels of the heads of a group.
inline std::int64_t group_bytes(Entry const& entry, Problem const& problem) {
  return layout_for(entry, problem).heads * problem.head_dim * element_bytes(problem);
}

}  // namespace msda::persistent
