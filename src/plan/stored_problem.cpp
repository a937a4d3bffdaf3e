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
  copy_strides(p.value, c.value_strides);
  copy_strides(p.coord, c.coord_strides);
  copy_strides(p.weight, c.weight_strides);
  copy_strides(p.output, c.output_strides);
  c.batch = p.batch;
  c.query_count = p.query_count;
  c.head_count = p.head_count;
  c.head_dim = p.head_dim;
  c.token_count = p.token_count;
  c.value_border = p.value_border;
  c.reference_dim = p.reference_dim;
  c.operation = p.operation;
  c.input_mode = p.input_mode;
  c.value_dtype = p.value_dtype;
  c.coord_dtype = p.coord_dtype;
  c.weight_dtype = p.weight_dtype;
  c.output_dtype = p.output_dtype;
  c.grad_value_dtype = p.grad_value_dtype;
  c.math_mode = p.math_mode;
  c.determinism = p.determinism;
  c.point_locality = p.point_locality;
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
  with_pointers.level_hw = level_hw.empty() ? nullptr : level_hw.data();
  with_pointers.point_counts = point_counts.empty() ? nullptr : point_counts.data();
  with_pointers.query_hw = query_hw.empty() ? nullptr : query_hw.data();
  with_pointers.level_start = level_start.empty() ? nullptr : level_start.data();
  return with_pointers;
}

std::string version_text() {
  return fmt::format("{}.{}.{}", MSDA_VERSION_MAJOR, MSDA_VERSION_MINOR, MSDA_VERSION_PATCH);
}

}  // namespace msda
