// The tiles of direct's generic backward, and what its arrays take.

#include "kernels/direct/plan.h"

#include "api/objects.h"

#include "support/random_problem.h"
#include "support/test_problem.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace msda;

namespace {

Problem canonical(msda::test::ProblemShape const& shape) {
  ProblemCopy const view = shape.copy();
  return api::canonical_problem(&view.c, std::pmr::new_delete_resource());
}

}  // namespace

TEST_CASE("tiles of the generic backward cover every cell of levels that have points") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Problem const problem = canonical(msda::test::random_problem_shape(seed, MSDA_BACKWARD));
    direct::Tiles const tiles = direct::make_tiles(problem);
    REQUIRE(tiles.levels.size() == problem.levels.size());
    std::int64_t count = 0;
    for (std::size_t l = 0; l < tiles.levels.size(); ++l) {
      Level const& level = problem.levels[l];
      direct::LevelTiles const& of_level = tiles.levels[l];
      CHECK(of_level.first == count);
      bool const is_used =
          level.width > 0 && level.height > 0 && level.point_count > 0 && problem.query_count > 0;
      CHECK((of_level.across > 0) == is_used);
      if (!is_used) continue;
      CHECK(of_level.across == divide_up(level.width + 1, std::int64_t{1} << of_level.width_bits));
      count +=
          of_level.across * divide_up(level.height + 1, std::int64_t{1} << of_level.height_bits);
    }
    CHECK(tiles.count == count);
  }
}

TEST_CASE("tiles of levels that share tokens are added level by level") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Problem problem = canonical(msda::test::random_problem_shape(seed, MSDA_BACKWARD));
    problem.levels_overlap = false;
    CHECK(direct::make_tiles(problem).rounds.size() == 1);
    problem.levels_overlap = true;
    direct::Tiles const tiles = direct::make_tiles(problem);
    std::int64_t end = 0;
    for (direct::TileRange const& round : tiles.rounds) {
      CHECK(round.begin == end);
      end = round.end;
      auto const is_its_level = [&](direct::LevelTiles const& level) {
        return level.across > 0 && level.first >= round.begin && level.first < round.end;
      };
      CHECK(std::ranges::count_if(tiles.levels, is_its_level) == 1);
    }
    CHECK(end == tiles.count);
  }
}

TEST_CASE("the generic backward keeps at most 13 bytes a point, and 8 a level and head") {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    msda::test::ProblemShape shape = msda::test::random_problem_shape(seed, MSDA_BACKWARD);
    shape.query_hw.clear();
    shape.value_strides = shape.coord_strides = shape.weight_strides = shape.output_strides =
        shape.grad_coord_strides = shape.grad_weight_strides = {0, 0, 0};
    if (seed % 3 == 0) shape.query_count *= 300;
    Problem const problem = canonical(shape);
    direct::BinParams bins = direct::bin_params(problem, direct::make_tiles(problem));
    std::int64_t const heads = std::max<std::int64_t>(problem.batch * problem.head_count, 1);
    CHECK(direct::heads_within(problem, bins, 100, 0) == heads);
    Arena arena;
    direct::take_arrays(bins, heads, arena);
    auto const levels = static_cast<std::int64_t>(problem.levels.size());
    CAPTURE(shape.describe());
    CHECK(4 * static_cast<std::int64_t>(arena.used_bytes()) <=
          heads * (52 * bins.points + 4 * 8 * levels) + 4 * 1024);
  }
}

TEST_CASE("heads of the generic backward that fit a limit") {
  msda::test::ProblemShape shape;
  shape.levels = {{30, 40, 4}};
  shape.batch = 3;
  shape.head_count = 4;
  shape.query_count = 500;
  shape.operation = MSDA_BACKWARD;
  Problem const problem = canonical(shape);
  direct::BinParams const bins = direct::bin_params(problem, direct::make_tiles(problem));
  auto const bytes_of = [&](std::int64_t heads) {
    direct::BinParams taken = bins;
    Arena arena;
    arena.take<std::byte>(700);
    direct::take_arrays(taken, heads, arena);
    return arena.used_bytes();
  };
  for (std::int64_t heads = 1; heads <= 12; ++heads) {
    CHECK(direct::heads_within(problem, bins, 700, bytes_of(heads)) == heads);
    if (heads > 1)
      CHECK(direct::heads_within(problem, bins, 700, bytes_of(heads) - 1) == heads - 1);
  }
  CHECK(direct::heads_within(problem, bins, 700, 1) == 1);
}
