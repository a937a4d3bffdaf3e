// Which levels a block of the persistent family keeps in shared memory.

#include "kernels/persistent/plan.h"

#include <doctest/doctest.h>

#include <vector>

using namespace msda;
using namespace msda::persistent;
using namespace msda::rows;

namespace {

struct Size {
  std::int64_t height, width, border = 0;
};

Problem problem_of(std::vector<Size> const& sizes) {
  Problem problem(std::pmr::new_delete_resource());
  for (Size const& size : sizes) {
    Level level;
    level.height = size.height;
    level.width = size.width;
    level.row_tokens = size.width + 2 * size.border;
    problem.levels.push_back(level);
  }
  return problem;
}

}  // namespace

TEST_CASE("the smallest levels are cached, as many as fit") {
  // 128 * (25 * 42 + 13 * 21) = 169,344 of 176,128 bytes, less a line.
  CachedLevels const cached =
      choose_cached_levels(problem_of({{100, 167}, {50, 84}, {25, 42}, {13, 21}}), 128);
  CHECK(cached.levels == 0b1100);
  CHECK(cached.bytes[3] == 13 * 21 * 128);
  CHECK(cached.begin[3] == 0);
  CHECK(cached.begin[2] == cached.bytes[3]);
  CHECK(cached.shared_bytes() == 169344 + 128);
}

TEST_CASE("the order of levels decides only among equal ones") {
  CHECK(choose_cached_levels(problem_of({{13, 21}, {100, 167}, {25, 42}}), 128).levels == 0b101);
  // Two of 90,112 bytes do not fit together.
  CachedLevels const equal = choose_cached_levels(problem_of({{22, 32}, {22, 32}}), 128);
  CHECK(equal.levels == 0b01);
}

TEST_CASE("a level that just fits is cached, one pixel more is not") {
  CHECK(choose_cached_levels(problem_of({{1375, 1}}), 128).levels == 1);
  CHECK(choose_cached_levels(problem_of({{1376, 1}}), 128).levels == 0);
  CHECK(choose_cached_levels(problem_of({{1376, 1}}), 128).end == 0);
}

TEST_CASE("levels begin at whole lines, and hold the borders between their rows") {
  CachedLevels const cached = choose_cached_levels(problem_of({{3, 3}, {4, 5, 1}}), 32);
  CHECK(cached.levels == 0b11);
  CHECK(cached.bytes[0] == 9 * 32);
  CHECK(cached.begin[1] == 384);
  CHECK(cached.bytes[1] == (3 * 7 + 5) * 32);
  CHECK(cached.end % kLineBytes == 0);
}

TEST_CASE("of no levels none is cached") {
  CHECK(choose_cached_levels(problem_of({}), 128).levels == 0);
}
