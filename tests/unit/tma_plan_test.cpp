// How the tma family deals queries to tiles and shared memory to windows.

#include "support/h200.h"

#include "core/family.h"
#include "kernels/tma/plan.h"

#include <doctest/doctest.h>

#include <memory_resource>
#include <set>

using namespace msda;
using namespace msda::rows;
using namespace msda::tma;

namespace {

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
      check_tiles(make_query_tiles(problem, most), 143, most);
    }
  }
  // An encoder's queries are the pixels of all levels.
  Problem const encoder = problem_of({level_of(20, 34), level_of(10, 17), level_of(5, 9)}, {}, 895);
  QueryTiles const tiles = make_query_tiles(encoder, 120);
  check_tiles(tiles, 895, 120);
  CHECK(tiles.width == doctest::Approx(8.0 / 34));
  CHECK(tiles.order.size() == 895);
  // Queries without a place are taken as they come.
  QueryTiles const runs = make_query_tiles(problem_of({level_of(20, 34)}, {}, 250), 120);
  CHECK(runs.order.empty());
  CHECK(runs.begin == std::vector<std::int32_t>{0, 120, 240, 250});
  CHECK(runs.width == 0);
}

TEST_CASE("tma: windows fit a stage, hold the tile, and have even columns") {
  for (Stages const stages : {n2, n4, n8}) {
    CAPTURE(stages);
    WindowMemory const memory = window_memory(4, p1, stages, test::h200());
    CHECK(memory.shared_bytes + kStaticSharedBytes <= test::h200().shared_bytes_per_block);
    CHECK(memory.stage_bytes % tma::kLineBytes == 0);
    for (std::vector<Grid> const& grids : {std::vector<Grid>{}, {{124, 125}}}) {
      Problem const problem = problem_of(
          {level_of(92, 160), level_of(46, 80), level_of(9, 9, 0), level_of(1, 1)}, grids, 15500);
      QueryTiles const tiles = make_query_tiles(problem, 120);
      Box windows[kInlineLevels] = {};
      choose_windows(problem, tiles, memory.stage_bytes, windows);
      CHECK(windows[2].columns == 0);  // no points, no window
      for (std::size_t const l : {0, 1, 3}) {
        CAPTURE(l);
        Box const& window = windows[l];
        CHECK(window.columns % 2 == 0);
        CHECK(window.columns >= 2);
        CHECK(window.rows >= 2);
        CHECK(window.columns <= kMaxBoxSide);
        CHECK(std::int64_t{window.columns} * window.rows * 64 <= memory.stage_bytes);
      }
      if (grids.empty() || stages == n8) continue;
      // 8 x 15 queries of 125 x 124 are 10.3 x 11.2 pixels of 160 x 92.
      CHECK(windows[0].columns >= 12);
      CHECK(windows[0].rows >= 14);
    }
  }
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
