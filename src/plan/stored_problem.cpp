#include "plan/stored_problem.h"

#include <fmt/core.h>

#include <limits>

namespace msda {
namespace {

void copy_strides(Strides const& from, std::int64_t (&to)[3]) {
  to[0] = from.batch;
  to[1] = from.row;
  to[2] = from.head;
}

// Empty where each level starts at the end of the one before it: problems that are equal have one
// form.
std::vector<std::int64_t> stored_starts(Problem const& p) {
  std::vector<std::int64_t> starts;
  std::int64_t end = 0;
  bool one_after_another = true;
  for (Level const& level : p.levels) {
    one_after_another = one_after_another && level.token_start == end;
    end = level.token_start + level.token_count;
    starts.push_back(level.token_start);
  }
  if (one_after_another) starts.clear();
  return starts;
}

}  // namespace

StoredProblem stored_form(Problem const& p) {
  StoredProblem stored;
  auto const add = [](std::vector<std::int32_t>& array, std::int64_t value) {
    array.push_back(static_cast<std::int32_t>(value));  // it came from an int32
  };
  for (Level const& level : p.levels) {
    add(stored.level_hw, level.height);
    add(stored.level_hw, level.width);
    add(stored.point_counts, level.point_count);
  }
  for (Grid const& grid : p.query_grids) {
    add(stored.query_hw, grid.height);
    add(stored.query_hw, grid.width);
  }
  stored.level_start = stored_starts(p);
  msda_problem& c = stored.problem;
#define MSDA_STRIDES(name, tensors) copy_strides(p.tensors, c.name);
#define MSDA_SIZE(name) c.name = p.name;
#define MSDA_CHOICE(name, type, ...) c.name = p.name;
#define MSDA_DTYPE(name, otherwise) c.name = p.name;
#define MSDA_DERIVED(name) c.name = p.name;
#include "core/problem_fields.inc"
  return stored;
}

bool StoredProblem::settle_counts() {
  constexpr std::size_t kLargestCount = std::numeric_limits<std::int32_t>::max();
  bool const starts_fit = level_start.empty() || level_start.size() == point_counts.size();
  if (level_hw.size() != 2 * point_counts.size() || !starts_fit || query_hw.size() % 2 != 0 ||
      level_hw.size() > kLargestCount || query_hw.size() > kLargestCount) {
    return false;
  }
  problem.struct_size = sizeof(problem);
  problem.level_count = static_cast<std::int32_t>(point_counts.size());
  problem.query_grid_count = static_cast<std::int32_t>(query_hw.size() / 2);
  return true;
}

msda_problem StoredProblem::view() const {
  msda_problem with_pointers = problem;
#define MSDA_ARRAY(name, type) with_pointers.name = name.empty() ? nullptr : name.data();
#include "core/problem_fields.inc"
  return with_pointers;
}

std::string version_text() {
  return fmt::format("{}.{}.{}", MSDA_VERSION_MAJOR, MSDA_VERSION_MINOR, MSDA_VERSION_PATCH);
}

}  // namespace msda
