// Do the cases of tests/cases that have a sm_count_limit give every block of the persistent family
// several tiles?

#include "api/objects.h"
#include "kernels/persistent/plan.h"
#include "registry.h"
#include "support/case_file.h"
#include "support/expected_reason.h"
#include "support/h200.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace msda;
using namespace msda::test;
using rows::ScheduleParams;

namespace {

Family const& persistent_family() {
  return *std::ranges::find_if(families(), [](Family const& family) {
    return std::string_view(family.model.name) == "persistent";
  });
}

// A block's tiles with jobs in them, and the rounds that they are dealt in.
struct Turns {
  int tiles = 0;
  int rounds = 0;
};

// As fill_tiles() in persistent_rows.cuh deals them.
Turns turns_of(ScheduleParams const& schedule, std::uint32_t block) {
  Turns turns;
  for (std::uint32_t round = 0; round < schedule.rounds; ++round) {
    std::uint32_t const tile =
        round * schedule.blocks + (block + round * schedule.rotation) % schedule.blocks;
    turns.tiles += tile * schedule.tile_jobs.divisor < schedule.jobs ? 1 : 0;
  }
  turns.rounds = turns.tiles;
  return turns;
}

// As run_tiles() in persistent_rows.cuh goes through them: a tile ends where its group of heads
// does.
Turns turns_with_cached_levels(ScheduleParams const& schedule, std::uint32_t block) {
  Turns turns;
  std::uint32_t const copying =
      schedule.head_group_indices.divisor - schedule.head_group_jobs.divisor;
  for (std::uint32_t begin = block * schedule.grid_range; begin < schedule.index_count;
       begin += schedule.blocks * schedule.grid_range) {
    std::uint32_t const end = std::min(begin + schedule.grid_range, schedule.index_count);
    ++turns.rounds;
    for (std::uint32_t index = begin; index < end;) {
      std::uint32_t const group_begin =
          index / schedule.head_group_indices.divisor * schedule.head_group_indices.divisor;
      std::uint32_t const next = std::min(group_begin + schedule.head_group_indices.divisor, end);
      turns.tiles += next - group_begin > copying ? 1 : 0;
      index = next;
    }
  }
  return turns;
}

// The fewest that a block has. No block: the kernel does not take the shape.
struct Least {
  std::uint32_t blocks = 0;
  Turns turns = {1 << 30, 1 << 30};
};

Least min_turns(Variant const& variant, ProblemShape const& shape, std::int32_t limit) {
  ProblemCopy const view = shape.copy();
  Problem const problem = api::canonical_problem(&view.c, std::pmr::new_delete_resource());
  Device const device = h200().limited_to(limit);
  Least least;
  if (persistent_family().model.reject(variant, problem, device) != Reason::kNone) return least;
  ScheduleParams const schedule =
      persistent::schedule_of(variant, problem, rows::query_order(problem), device);
  least.blocks = schedule.blocks;
  for (std::uint32_t block = 0; block < schedule.blocks; ++block) {
    Turns const turns = caches_levels(variant.id) ? turns_with_cached_levels(schedule, block)
                                                  : turns_of(schedule, block);
    least.turns.tiles = std::min(least.turns.tiles, turns.tiles);
    least.turns.rounds = std::min(least.turns.rounds, turns.rounds);
  }
  return least;
}

}  // namespace

TEST_CASE("cases with a sm_count_limit give every block several tiles") {
  int cases = 0;
  for (CorpusCase const& item : corpus()) {
    for (std::int32_t const limit : item.sm_count_limits) {
      for (ProblemShape const& shape : item.shapes()) {
        for (Variant const& variant : persistent_family().model.variants) {
          Least const least = min_turns(variant, shape, limit);
          if (least.blocks == 0) continue;
          CAPTURE(item.name);
          CAPTURE(variant.id);
          CAPTURE(limit);
          CHECK(least.blocks == static_cast<std::uint32_t>(limit));
          CHECK(least.turns.tiles >= 2);
          ++cases;
        }
      }
    }
  }
  CHECK(cases > 0);
}

TEST_CASE("each kernel of the persistent family has such cases, with limits of 1 and of 3") {
  for (Variant const& variant : persistent_family().model.variants) {
    for (std::int32_t const limit : {1, 3}) {
      int sampled = 0, fused = 0;
      for (CorpusCase const& item : corpus()) {
        if (std::ranges::count(item.sm_count_limits, limit) == 0) continue;
        for (ProblemShape const& shape : item.shapes()) {
          if (min_turns(variant, shape, limit).blocks == 0) continue;
          ++(shape.fused() ? fused : sampled);
        }
      }
      CAPTURE(variant.id);
      CAPTURE(limit);
      bool const cached_fused = std::string_view(variant.id).find("cf@") != std::string_view::npos;
      CHECK((sampled > 0) != cached_fused);
      CHECK((fused > 0) != (caches_levels(variant.id) && !cached_fused));
    }
  }
}

TEST_CASE("an empty dimension beside a huge one has a schedule") {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  int schedules = 0;
  for (std::int64_t ProblemShape::* const empty :
       {&ProblemShape::batch, &ProblemShape::head_count}) {  // without them no value is huge
    for (std::int64_t ProblemShape::* const huge :
         {&ProblemShape::batch, &ProblemShape::query_count, &ProblemShape::head_count}) {
      if (empty == huge) continue;
      ProblemShape shape = corpus_case("rounds_kept").shape;
      shape.*empty = 0;
      shape.*huge = kHuge;
      for (Variant const& variant : persistent_family().model.variants) {
        Least const least = min_turns(variant, shape, 0);
        schedules += least.blocks != 0 ? 1 : 0;
        CHECK(least.blocks <= 1);  // none is launched
      }
    }
  }
  CHECK(schedules > 0);
}

TEST_CASE("levels are cached only where a block has the shared memory") {
  ProblemCopy const view = corpus_case("rounds_kept").shape.copy();
  Problem const problem = api::canonical_problem(&view.c, std::pmr::new_delete_resource());
  Device small = h200();
  small.shared_bytes_per_block = 100 << 10;
  int kernels = 0;
  for (Variant const& variant : persistent_family().model.variants) {
    if (persistent_family().model.reject(variant, problem, h200()) != Reason::kNone) continue;
    CAPTURE(variant.id);
    Reason const expected = caches_levels(variant.id) ? Reason::kSharedMemory : Reason::kNone;
    CHECK(persistent_family().model.reject(variant, problem, small) == expected);
    kernels += caches_levels(variant.id) ? 1 : 0;
  }
  CHECK(kernels > 0);
}

TEST_CASE("a case that caches levels has two grid ranges for every block") {
  CorpusCase const item = corpus_case("rounds_kept");
  for (std::int32_t const limit : item.sm_count_limits) {
    int kernels = 0;
    for (Variant const& variant : persistent_family().model.variants) {
      if (!caches_levels(variant.id)) continue;
      Least const least = min_turns(variant, item.shape, limit);
      if (least.blocks == 0) continue;
      CAPTURE(limit);
      CHECK(least.turns.rounds >= 2);
      CHECK(least.turns.tiles > least.turns.rounds);
      ++kernels;
    }
    CHECK(kernels > 0);
  }
}
