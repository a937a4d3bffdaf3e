#include "core/problem_copy.h"

#include <fmt/core.h>

namespace msda {
namespace {

void copy_strides(Strides const& from, std::int64_t (&to)[3]) {
  to[0] = from.batch;
  to[1] = from.row;
  to[2] = from.head;
}

// Empty where each level starts at the end of the one before it: problems that are equal have one
// form.
std::vector<std::int64_t> copied_starts(Problem const& p) {
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

ProblemCopy copy_of(Problem const& p) {
  ProblemCopy copy;
  auto const add = [](std::vector<std::int32_t>& array, std::int64_t value) {
    array.push_back(static_cast<std::int32_t>(value));  // it came from an int32
  };
  for (Level const& level : p.levels) {
    add(copy.level_hw, level.height);
    add(copy.level_hw, level.width);
    add(copy.point_counts, level.point_count);
  }
  for (Grid const& grid : p.query_grids) {
    add(copy.query_hw, grid.height);
    add(copy.query_hw, grid.width);
  }
  copy.level_start = copied_starts(p);
  msda_problem& c = copy.c;
#define MSDA_STRIDES(name, tensors) copy_strides(p.tensors, c.name);
#define MSDA_SIZE(name) c.name = p.name;
#define MSDA_CHOICE(name, type, ...) c.name = p.name;
#define MSDA_DTYPE(name, otherwise) c.name = p.name;
#define MSDA_DERIVED(name) c.name = p.name;
#include "core/problem_fields.inc"
  copy.settle();
  return copy;
}

std::string version_text() {
  return fmt::format("{}.{}.{}", MSDA_VERSION_MAJOR, MSDA_VERSION_MINOR, MSDA_VERSION_PATCH);
}

}  // namespace msda
