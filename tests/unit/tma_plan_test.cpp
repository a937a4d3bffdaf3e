// How the tma family deals queries to tiles and shared memory to windows.

#include "support/h200.h"

#include "core/family.h"
#include "kernels/tma/plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory_resource>
#include <set>

using namespace msda;
using namespace msda::rows;
using namespace msda::tma;

namespace {

constexpr std::int64_t kBlocks = 132;

Problem problem_of(std::vector<Level> const& levels, std::vector<Grid> const& grids,
                   std::int64_t queries) {
  Problem problem(std::pmr::get_default_resource());
  problem.batch = 2;
  problem.head_count = 8;
  problem.head_dim = 32;
  problem.query_count = queries;
  problem.value_dtype = MSDA_DTYPE_F16;
  for (Level level : levels) {
    level.row_tokens = level.width;
    level.origin = level.token_start = problem.token_count;
    level.point_start = problem.point_total;
    problem.token_count += level.height * level.width;
    problem.point_total += level.point_count;
    problem.levels.push_back(level);
  }
  for (Grid const& grid : grids) problem.query_grids.push_back(grid);
  problem.value = {problem.token_count * 256, 256, 32};
  return problem;
}

Level level_of(std::int64_t height, std::int64_t width, std::int64_t points = 4) {
  Level level;
  level.height = height;
  level.width = width;
  level.point_count = points;
  return level;
}

void check_tiles(QueryTiles const& tiles, std::int64_t queries, std::int64_t most) {
  REQUIRE(tiles.begin.front() == 0);
  REQUIRE(tiles.begin.back() == queries);
  for (std::size_t i = 1; i < tiles.begin.size(); ++i) {
    std::int32_t const count = tiles.begin[i] - tiles.begin[i - 1];
    CHECK(count > 0);
    CHECK(count <= most);
  }
  if (tiles.order.empty()) return;
  REQUIRE(static_cast<std::int64_t>(tiles.order.size()) == queries);
  CHECK(std::set<std::int32_t>(tiles.order.begin(), tiles.order.end()).size() ==
        tiles.order.size());
}

}  // namespace

TEST_CASE("tma: every query is in one tile, of at most as many as fit") {
  for (std::int64_t const most : {7, 56, 120}) {
    CAPTURE(most);
    for (std::vector<Grid> const& grids : {std::vector<Grid>{},
                                           {{13, 11}},
                                           {{1, 143}},
                                           {{143, 1}},
                                           {{12, 10}, {6, 3}, {0, 9}, {1, 5}}}) {
      Problem const problem = problem_of({level_of(30, 20)}, grids, 143);
      check_tiles(make_query_tiles(problem, most, kBlocks), 143, most);
    }
  }
  // An encoder's queries are the pixels of all levels.
  Problem const encoder = problem_of({level_of(20, 34), level_of(10, 17), level_of(5, 9)}, {}, 895);
  QueryTiles const tiles = make_query_tiles(encoder, 120, kBlocks);
  check_tiles(tiles, 895, 120);
  CHECK(tiles.width == doctest::Approx(9.0 / 34));
  CHECK(tiles.order.size() == 895);
  // Queries without a place are taken as they come.
  QueryTiles const runs = make_query_tiles(problem_of({level_of(20, 34)}, {}, 250), 120, kBlocks);
  CHECK(runs.order.empty());
  CHECK(runs.begin == std::vector<std::int32_t>{0, 120, 240, 250});
  CHECK(runs.width == 0);
}

TEST_CASE("tma: tiles of a grid are cut evenly, for blocks that have alike") {
  // 20 rows of 8 queries of the finest grid have at most 240 of all grids; of 9, 16 rows.
  Problem const encoder = problem_of(
      {level_of(100, 167), level_of(50, 84), level_of(25, 42), level_of(13, 21)}, {}, 22223);
  QueryTiles const tiles = make_query_tiles(encoder, 240, kBlocks);
  check_tiles(tiles, 22223, 240);
  CHECK(tiles.width == doctest::Approx(8.0 / 167));
  CHECK(tiles.height == doctest::Approx(0.2));
  CHECK(tiles.begin.size() == 21 * 5 + 1);
  // A grid of another shape is another picture: no tile has queries of both.
  Problem const rest = problem_of({level_of(92, 160)}, {{123, 125}, {2, 47}}, 15469);
  QueryTiles const pictures = make_query_tiles(rest, 120, kBlocks);
  check_tiles(pictures, 15469, 120);
  CHECK(pictures.width == doctest::Approx(9.0 / 125));
  CHECK(pictures.begin.size() == 14 * 10 + 6 + 1);
  CHECK(pictures.order[15375] == 15375);
  // Fewer queries in a tile are better than fewer tiles where each block has one.
  Problem const one = problem_of({level_of(92, 160)}, {{26, 63}}, 1638);
  CHECK(make_query_tiles(one, 120, 1000).width == doctest::Approx(8.0 / 63));
  CHECK(make_query_tiles(one, 120, 1).width == doctest::Approx(9.0 / 63));
}

TEST_CASE("tma: queries of a last row that is not whole have no tiles of their own") {
  Problem const problem = problem_of({level_of(92, 160)}, {{123, 125}, {1, 47}}, 15422);
  QueryTiles const tiles = make_query_tiles(problem, 120, kBlocks);
  check_tiles(tiles, 15422, 120);
  CHECK(tiles.width == doctest::Approx(9.0 / 125));
  CHECK(tiles.height == doctest::Approx(13.0 / 124));
  REQUIRE(tiles.begin.size() == 14 * 10 + 1);
  // The first tile of the last row of tiles has the first of those queries below the others.
  std::int32_t const begin = tiles.begin[14 * 9], end = tiles.begin[14 * 9 + 1];
  CHECK(end - begin > 100);
  std::int32_t const last = tiles.order[static_cast<std::size_t>(end) - 1];
  CHECK(last == 15375 + 8);
  // A level of one row is no last row: it looks at the whole picture, to the right end.
  Problem const levels = problem_of({level_of(2, 40), level_of(1, 30)}, {}, 110);
  QueryTiles const level_tiles = make_query_tiles(levels, 120, kBlocks);
  check_tiles(level_tiles, 110, 120);
  CHECK(level_tiles.order.back() == 109);
  CHECK(level_tiles.height == 1);
  // Grids of one row that come first, follow each other or are as wide as the one before.
  for (std::vector<Grid> const& grids :
       {std::vector<Grid>{{1, 3}, {20, 5}, {1, 4}}, {{20, 9}, {1, 4}, {1, 3}}, {{20, 9}, {1, 9}}}) {
    std::int64_t queries = 0;
    for (Grid const& grid : grids) queries += grid.height * grid.width;
    check_tiles(make_query_tiles(problem_of({level_of(92, 160)}, grids, queries), 120, kBlocks),
                queries, 120);
  }
}

TEST_CASE("tma: a tile's table has its queries, and samples that are among them") {
  Problem const problem = problem_of({level_of(30, 20)}, {{13, 11}}, 143);
  QueryTiles const tiles = make_query_tiles(problem, 120, kBlocks);
  TileTables const tables = tables_of(tiles, 120);
  std::size_t const count = tiles.begin.size() - 1;
  REQUIRE(tables.queries.size() == count * 120);
  REQUIRE(tables.samples.size() == count * kSamples);
  for (std::size_t tile = 0; tile < count; ++tile) {
    auto const first = tables.queries.begin() + static_cast<std::ptrdiff_t>(tile * 120);
    std::int32_t const size = tiles.begin[tile + 1] - tiles.begin[tile];
    CHECK(std::equal(first, first + size, tiles.order.begin() + tiles.begin[tile]));
    CHECK(std::all_of(first + size, first + 120,
                      [first](std::int32_t query) { return query == ~*first; }));
    for (std::size_t i = 0; i < kSamples; ++i) {
      CHECK(std::find(first, first + size, tables.samples[tile * kSamples + i]) != first + size);
    }
  }
}

TEST_CASE("tma: windows fit a block, hold the tile, and have even columns") {
  for (std::int64_t const points : {4, 8}) {
    for (bool const fp16_sums : {false, true}) {
      for (std::vector<Grid> const& grids : {std::vector<Grid>{}, {{124, 125}}}) {
        CAPTURE(points);
        CAPTURE(fp16_sums);
        Problem const problem = problem_of({level_of(92, 160, points), level_of(46, 80, points),
                                            level_of(9, 9, 0), level_of(1, 1, points)},
                                           grids, 15500);
        QueryTiles const tiles = make_query_tiles(problem, tile_rows(points), kBlocks);
        WindowMemory const memory = window_memory(problem, tiles, fp16_sums, test::h200());
        CHECK(memory.shared_bytes + kWindowStaticBytes <= test::h200().shared_bytes_per_block);
        CHECK(memory.windows[2].columns == 0);  // no points, no window
        std::int32_t pixels = 0;
        for (std::size_t const l : {0, 1, 3}) {
          CAPTURE(l);
          Box const& window = memory.windows[l];
          CHECK(window.columns % 2 == 0);
          CHECK(window.columns >= 2);
          CHECK(window.rows >= 2);
          CHECK(window.columns <= kMaxBoxSide);
          CHECK(window.columns * window.rows <= kMaxWindowPixels);
          pixels += window.columns * window.rows;
        }
        CHECK(memory.pixels == pixels);
        if (grids.empty()) continue;
        // 9 x 13 queries of 125 x 124 are 11.5 x 9.6 pixels of 160 x 92.
        CHECK(memory.windows[0].columns >= 20);
        CHECK(memory.windows[0].rows >= 20);
      }
    }
  }
  CHECK(points_of_level(problem_of({level_of(9, 9, 4), level_of(9, 9, 8)}, {}, 10)) == 0);
  CHECK(points_of_level(problem_of({level_of(9, 9, 0), level_of(9, 9, 8)}, {}, 10)) == 8);
}

TEST_CASE("tma: why a tensor cannot be described, with the number") {
  Problem const packed = problem_of({level_of(9, 9)}, {}, 10);
  CHECK(reject_maps(packed) == Reason::kNone);
  auto const with = [&](auto change) {
    Problem problem = packed;
    change(problem);
    return reject_maps(problem);
  };
  CHECK(with([](Problem& p) { p.value.row += 4; }) == Reason::kMapStrides);   // 8 bytes
  CHECK(with([](Problem& p) { p.value.row += 8; }) == Reason::kNone);         // 16
  CHECK(with([](Problem& p) { p.value.row = 24; }) == Reason::kMapStrides);   // less than a head
  CHECK(with([](Problem& p) { p.value.head = 0; }) == Reason::kMapStrides);   // one for all heads
  CHECK(with([](Problem& p) { p.value.batch = 0; }) == Reason::kMapStrides);  // for all items
  CHECK(with([](Problem& p) {
          p.value.batch = 0;
          p.batch = 1;
        }) == Reason::kNone);
  CHECK(with([](Problem& p) { p.value.batch = std::int64_t{1} << 39; }) == Reason::kMapStrides);
  CHECK(with([](Problem& p) { p.levels[0].width = 0; }) == Reason::kMapLevels);
  CHECK(with([](Problem& p) { p.levels[0].width = p.levels[0].point_count = 0; }) == Reason::kNone);
  CHECK(with([](Problem& p) { p.levels[0].height = 65535; }) == Reason::kMapLevels);
  CHECK(reason_text(Reason::kMapStrides).find("multiples of 16 bytes") != std::string_view::npos);
  CHECK(reason_text(Reason::kMapLevels).find("65534") != std::string_view::npos);
}
