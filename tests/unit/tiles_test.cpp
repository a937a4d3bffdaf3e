// How the sorted family cuts maps into tiles, and the workspace that it says it needs.

#include "api/objects.h"
#include "kernels/points/plan.h"
#include "kernels/sorted/plan.h"
#include "support/h200.h"
#include "support/random_problem.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace msda;
using namespace msda::test;

namespace {

Problem problem_of(ProblemShape const& shape) {
  ProblemCopy const view = shape.copy();
  return api::canonical_problem(&view.c, std::pmr::new_delete_resource());
}

ProblemShape backward(std::vector<LevelShape> levels, std::int64_t batch, std::int64_t heads,
                      std::int64_t channels, std::int64_t queries, std::int32_t reference_dim) {
  ProblemShape shape;
  shape.levels = std::move(levels);
  shape.batch = batch;
  shape.head_count = heads;
  shape.head_dim = channels;
  shape.query_count = queries;
  shape.reference_dim = reference_dim;
  shape.set_dtypes(MSDA_DTYPE_F16);
  shape.operation = MSDA_BACKWARD;
  return shape;
}

std::size_t workspace_of(Problem const& problem, Device const& device) {
  return sorted::workspace_bytes(problem, sorted::Planned(problem, device));
}

}  // namespace

TEST_CASE("every cell of every level lies in one tile") {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    ProblemShape const shape = random_problem_shape(seed, MSDA_BACKWARD);
    Problem const problem = problem_of(shape);
    sorted::Tiling const tiling = sorted::make_tiling(problem);
    REQUIRE(tiling.levels.size() == problem.levels.size());
    std::int64_t tiles = 0;
    for (std::size_t l = 0; l < tiling.levels.size(); ++l) {
      sorted::TileLevel const& level = tiling.levels[l];
      CHECK(level.first_tile == tiles);
      if (problem.levels[l].width == 0 || problem.levels[l].height == 0) {
        CHECK(level.tiles_across == 0);
        continue;
      }
      // The last tile begins at a cell of the level, and the next would not.
      std::int64_t const across = level.tiles_across;
      CHECK((across - 1) * level.tile_width <= level.width);
      CHECK(across * level.tile_width > level.width);
      std::int64_t const down = level.height / level.tile_height + 1;
      tiles += across * down;
      CHECK(level.tile_width * level.tile_height <= sorted::kMaxCells);
      CHECK((level.tile_width + 1) * (level.tile_height + 1) <= sorted::kMaxTilePixels);
      for (std::uint32_t cell = 0; cell <= static_cast<std::uint32_t>(level.width); ++cell) {
        auto const tile = static_cast<std::uint32_t>(std::uint64_t{cell} * level.by_width >> 32);
        REQUIRE(tile == cell / static_cast<std::uint32_t>(level.tile_width));
      }
    }
    CHECK(tiling.tiles == tiles);
    std::int64_t blocks = 0;
    for (std::size_t l = 0; l < tiling.levels.size(); ++l) {
      sorted::SumLevel const& level = tiling.sum_levels[l];
      std::int64_t const next =
          l + 1 < tiling.levels.size() ? tiling.levels[l + 1].first_tile : tiling.tiles;
      CHECK(level.first_tile == tiling.levels[l].first_tile);
      CHECK(level.tiles == next - level.first_tile);
      std::int64_t const of_block = level.is_sparse ? sorted::kSumWarps : 1;
      CHECK(level.blocks * of_block >= level.tiles);
      CHECK((level.blocks - 1) * of_block < std::max<std::int64_t>(level.tiles, 1));
      blocks += level.blocks;
    }
    CHECK(tiling.sum_blocks == blocks);
    std::int64_t const looked_up = problem.has_points() ? problem.point_total : 0;
    CHECK(points::point_levels(problem).size() == static_cast<std::size_t>(looked_up));
  }
}

TEST_CASE("a tile has as many cells as records fit a few rounds, fewer rounds of few points") {
  std::vector<LevelShape> const encoder = {{100, 167, 4}, {50, 84, 4}, {25, 42, 4}, {13, 21, 4}};
  struct Wanted {
    std::int64_t batch, heads;
    double rounds;
  };
  for (Wanted const& wanted : {Wanted{1, 1, 1.5}, Wanted{2, 8, 3.0}, Wanted{32, 8, 3.0}}) {
    Problem const problem = problem_of(backward(encoder, wanted.batch, wanted.heads, 32, 22223, 0));
    double const most = wanted.rounds * sorted::kRound;
    sorted::Tiling const tiling = sorted::make_tiling(problem);
    for (std::size_t l = 0; l < tiling.levels.size(); ++l) {
      sorted::TileLevel const& level = tiling.levels[l];
      Level const& map = problem.levels[l];
      std::int64_t const cells = std::int64_t{level.tile_width} * level.tile_height;
      double const records = static_cast<double>(cells * map.point_count * problem.query_count) /
                             static_cast<double>((map.width + 1) * (map.height + 1));
      CAPTURE(wanted.batch);
      CAPTURE(l);
      CHECK((cells & (cells - 1)) == 0);
      CHECK((records <= most || cells == 4));
      CHECK((2 * records > 0.8 * most || cells == sorted::kMaxCells));
    }
  }
}

TEST_CASE("sums begin at the end where a tile has most records") {
  std::vector<LevelShape> levels = {{100, 167, 4}, {50, 84, 4}, {25, 42, 4}};
  CHECK(sorted::make_tiling(problem_of(backward(levels, 2, 8, 32, 22223, 0))).last_tiles_first);
  std::ranges::reverse(levels);
  CHECK(!sorted::make_tiling(problem_of(backward(levels, 2, 8, 32, 22223, 0))).last_tiles_first);
}

// A tile that is summed in parts has one more for every part that is full of records.
TEST_CASE("there is room for the parts of any tiles") {
  for (std::int64_t const queries : {100, 900, 3000, 30000}) {
    Problem const problem =
        problem_of(backward({{100, 167, 4}, {13, 21, 4}}, 1, 1, 32, queries, 0));
    sorted::Tiling const tiling = sorted::make_tiling(problem);
    sorted::Bins const bins = sorted::make_bins(problem, tiling, h200());
    for (std::int64_t const records : {97, 98, 200, 8192, 8193, 16385}) {
      std::int64_t parts = 0;
      for (std::size_t l = 0; l < tiling.levels.size(); ++l) {
        sorted::SumLevel const& level = tiling.sum_levels[l];
        std::int64_t const least = level.is_sparse ? sorted::kFewOfWarp : bins.part_records;
        if (records <= least) continue;
        std::int64_t const full =
            std::min<std::int64_t>(level.tiles, problem.levels[l].point_count * queries / records);
        parts += full * ((records - 1) / bins.part_records + 1);
      }
      CHECK(parts <= bins.max_parts);
    }
  }
}

TEST_CASE("tiles are found on the largest maps") {
  Problem const problem = problem_of(backward({{1 << 24, 3, 1}, {3, 1 << 24, 1}}, 1, 1, 8, 1, 0));
  for (sorted::TileLevel const& level : sorted::make_tiling(problem).levels) {
    for (std::uint32_t cell : {0u, 7u, 8u, (1u << 24) - 8, (1u << 24) - 1, 1u << 24}) {
      CHECK((std::uint64_t{cell} * level.by_width >> 32) ==
            cell / static_cast<std::uint32_t>(level.tile_width));
      CHECK((std::uint64_t{cell} * level.by_height >> 32) ==
            cell / static_cast<std::uint32_t>(level.tile_height));
    }
  }
}

TEST_CASE("the workspace of sorted is 24 bytes a point and 8 a value element at most") {
  std::vector<LevelShape> const encoder = {{100, 167, 4}, {50, 84, 4}, {25, 42, 4}, {13, 21, 4}};
  std::vector<LevelShape> const birds_eye = {{92, 160, 8}, {46, 80, 8}, {23, 40, 8}, {12, 20, 8}};
  for (std::int32_t const reference_dim : {0, 2}) {
    for (ProblemShape const& shape : {backward(encoder, 2, 8, 32, 22223, reference_dim),
                                      backward(encoder, 2, 8, 32, 900, reference_dim),
                                      backward(birds_eye, 6, 8, 32, 15422, reference_dim),
                                      backward(encoder, 1, 8, 256, 22223, reference_dim),
                                      backward({{200, 200, 4}}, 2, 8, 32, 40000, reference_dim),
                                      backward({{40, 40, 2}}, 1, 16, 16, 300, reference_dim)}) {
      CAPTURE(shape.describe());
      Problem const problem = problem_of(shape);
      auto const points = static_cast<double>(shape.batch * shape.head_count * shape.query_count *
                                              problem.point_total);
      auto const elements = static_cast<double>(shape.batch * shape.head_count * shape.head_dim *
                                                problem.token_count);
      auto const bytes = static_cast<double>(workspace_of(problem, h200()));
      CHECK(bytes <= 24 * points + 8 * elements);
      ProblemShape sampled = shape;
      sampled.reference_dim = 0;
      CHECK(bytes <= static_cast<double>(workspace_of(problem_of(sampled), h200())) + 4 * points);
    }
  }
}

// The attribute of a kernel is the process's: a small plan must not take from a large one.
TEST_CASE("no plan bins with more shared memory than every plan asks for") {
  for (ProblemShape const& shape : {backward({{1, 1, 1}}, 1, 1, 8, 1, 0),
                                    backward({{92, 160, 8}, {46, 80, 8}}, 48, 1, 32, 15422, 0),
                                    backward({{4000, 4000, 1}}, 1, 1, 8, 100, 0)}) {
    Problem const problem = problem_of(shape);
    for (std::int64_t const shared_bytes : {std::int64_t{227} << 10, std::int64_t{99} << 10}) {
      Device device = h200();
      device.shared_bytes_per_block = shared_bytes;
      sorted::Bins const bins = sorted::make_bins(problem, sorted::make_tiling(problem), device);
      CHECK(bins.shared_bytes <= sorted::kMaxBinSharedBytes);
      CHECK(sorted::kMaxBinSharedBytes <= shared_bytes);
    }
  }
}

TEST_CASE("a workspace limit is kept to where one head fits") {
  Problem const problem = problem_of(backward({{100, 167, 4}, {50, 84, 4}}, 2, 8, 32, 22223, 2));
  std::size_t const whole = workspace_of(problem, h200());
  for (std::size_t const limit : {whole, whole - 1, whole / 2, whole / 15}) {
    CHECK(workspace_of(problem, h200().limited_to(0, limit)) <= limit);
  }
  CHECK(workspace_of(problem, h200().limited_to(0, whole / 100)) > whole / 100);
}
