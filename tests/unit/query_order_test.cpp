// The order in which blocks of the persistent family visit queries.

#include "kernels/rows/plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

using namespace msda;
using namespace msda::rows;

namespace {

std::int64_t pixels_of(std::vector<Grid> const& grids) {
  std::int64_t count = 0;
  for (Grid const& grid : grids) count += grid.height * grid.width;
  return count;
}

QueryOrder order_of_grids(std::vector<Grid> const& grids) {
  Problem problem(std::pmr::new_delete_resource());
  problem.batch = problem.head_count = 1;
  problem.query_grids.assign(grids.begin(), grids.end());
  problem.query_count = pixels_of(grids);
  return query_order(problem);
}

QueryOrder order_of_levels(std::vector<Grid> const& sizes, std::int64_t query_count) {
  Problem problem(std::pmr::new_delete_resource());
  for (Grid const& size : sizes) {
    Level level;
    level.height = size.height;
    level.width = size.width;
    problem.levels.push_back(level);
  }
  problem.batch = problem.head_count = 1;
  problem.query_count = query_count;
  return query_order(problem);
}

std::set<std::int32_t> numbers(std::vector<std::int32_t> const& queries, std::size_t begin,
                               std::size_t count) {
  auto const first = queries.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

// Queries of rows [y0, y1) and columns [x0, x1) of a grid whose first one is number `first`.
std::set<std::int32_t> part_of(Grid const& grid, std::int32_t first, std::int64_t y0,
                               std::int64_t y1, std::int64_t x0, std::int64_t x1) {
  std::set<std::int32_t> queries;
  for (std::int64_t y = y0; y < y1; ++y) {
    for (std::int64_t x = x0; x < x1; ++x) {
      queries.insert(first + static_cast<std::int32_t>(y * grid.width + x));
    }
  }
  return queries;
}

}  // namespace

TEST_CASE("every query is visited once") {
  std::vector<std::vector<Grid>> const cases = {
      {{1, 1}},
      {{7, 5}},
      {{33, 9}, {17, 5}, {9, 3}, {1, 1}},
      {{100, 167}, {50, 84}, {25, 42}, {13, 21}},
      {{13, 21}, {100, 167}, {50, 84}},
      {{123, 125}, {1, 47}},
      {{1, 300}, {300, 1}, {40, 40}, {2, 3}},
      {{0, 9}, {12, 12}, {5, 0}, {6, 6}},
      {{1, 1}, {1, 1}, {1, 1}},
      {{0, 0}},
  };
  for (std::vector<Grid> const& grids : cases) {
    CAPTURE(pixels_of(grids));
    std::vector<std::int32_t> queries = order_of_grids(grids).queries;
    std::ranges::sort(queries);
    std::vector<std::int32_t> all(static_cast<std::size_t>(pixels_of(grids)));
    std::iota(all.begin(), all.end(), 0);
    CHECK(queries == all);
  }
}

TEST_CASE("a tile has what all grids have in one part of the picture") {
  Grid const fine{32, 32}, middle{16, 16}, coarse{8, 8};
  QueryOrder const order = order_of_grids({fine, middle, coarse});
  CHECK(order.mixes_grids);
  // Tiles of 8 columns and 16 rows of the finest grid: the first one, and that on its right.
  CHECK(numbers(order.queries, 0, 128) == part_of(fine, 0, 0, 16, 0, 8));
  CHECK(numbers(order.queries, 128, 32) == part_of(middle, 1024, 0, 8, 0, 4));
  CHECK(numbers(order.queries, 160, 8) == part_of(coarse, 1280, 0, 4, 0, 2));
  CHECK(numbers(order.queries, 168, 128) == part_of(fine, 0, 0, 16, 8, 16));
  CHECK(numbers(order.queries, 296, 32) == part_of(middle, 1024, 0, 8, 4, 8));
}

TEST_CASE("the finest grid need not come first") {
  QueryOrder const order = order_of_grids({{8, 8}, {16, 16}});
  CHECK(numbers(order.queries, 0, 32) == part_of({8, 8}, 0, 0, 8, 0, 4));
  CHECK(numbers(order.queries, 32, 128) == part_of({16, 16}, 64, 0, 16, 0, 8));
}

TEST_CASE("a grid alone has taller tiles") {
  QueryOrder const order = order_of_grids({{40, 20}});
  CHECK(!order.mixes_grids);
  CHECK(numbers(order.queries, 0, 256) == part_of({40, 20}, 0, 0, 32, 0, 8));
}

TEST_CASE("grids of other shapes are other pictures") {
  QueryOrder const order = order_of_grids({{1, 7}, {16, 16}});
  CHECK(!order.mixes_grids);
  CHECK(numbers(order.queries, 0, 128) == part_of({16, 16}, 7, 0, 16, 0, 8));
  CHECK(numbers(order.queries, 256, 7) == part_of({1, 7}, 0, 0, 1, 0, 7));
}

TEST_CASE("without grids an encoder is known by its sizes") {
  std::vector<Grid> const sizes = {{32, 32}, {16, 16}};
  CHECK(order_of_levels(sizes, 1280).queries == order_of_grids(sizes).queries);
  CHECK(order_of_levels(sizes, 1280).mixes_grids);
  CHECK(order_of_levels(sizes, 900).queries.empty());
  CHECK(!order_of_levels(sizes, 900).mixes_grids);
}
