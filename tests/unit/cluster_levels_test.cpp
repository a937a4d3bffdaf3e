// Which levels the blocks of a cluster cache in shared memory.

#include "kernels/cluster/plan.h"

#include "api/objects.h"
#include "support/case_file.h"
#include "support/h200.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

using namespace msda;
using namespace msda::cluster;
using namespace msda::test;

namespace {

struct Size {
  std::int64_t height, width;
};

Problem problem_of(std::vector<Size> const& sizes) {
  Problem problem(std::pmr::new_delete_resource());
  for (Size const& size : sizes) {
    Level level;
    level.height = size.height;
    level.width = level.row_tokens = size.width;
    problem.levels.push_back(level);
  }
  return problem;
}

constexpr std::int64_t kRoom = kMaxCachedBytes;
const std::vector<Size> kBev = {{92, 160}, {46, 80}, {23, 40}, {12, 20}};

}  // namespace

TEST_CASE("a block and the levels that it caches have 195 KB of shared memory") {
  CHECK(kRoom == 192000);
  CHECK(kDeclaredBytes + kRoom + kLineBytes == 195 << 10);
}

TEST_CASE("bird's-eye views: a cluster of two has half of level 1 in each block") {
  // 23 rows of 80 pixels, 23 x 40 and 12 x 20 pixels of 64 bytes: 192,000 bytes.
  CachedLevels const cached = choose_cached_levels(problem_of(kBev), 64, 2, kRoom);
  CHECK(cached.levels == 0b1110);
  CHECK(cached.split == 0b0010);
  CHECK(cached.bytes == (23 * 80 + 23 * 40 + 12 * 20) * 64);
  CHECK(cached.begin[3] == 0);
  CHECK(cached.begin[2] == 12 * 20 * 64);
  CHECK(cached.begin[1] == (12 * 20 + 23 * 40) * 64);
  CHECK(cached.buffers == 1);
  // 128 bytes less: level 2 is spread, too.
  CHECK(choose_cached_levels(problem_of(kBev), 64, 2, kRoom - 128).split == 0b0110);
}

TEST_CASE("one block keeps whole levels, sixteen the whole pyramid") {
  CachedLevels const one = choose_cached_levels(problem_of(kBev), 64, 1, kRoom);
  CHECK(one.levels == 0b1100);
  CHECK(one.split == 0);
  CHECK(one.buffers == 2);
  CachedLevels const sixteen = choose_cached_levels(problem_of(kBev), 64, 16, kRoom);
  CHECK(sixteen.levels == 0b1111);
  CHECK(sixteen.split == 0b0011);
}

TEST_CASE("rows have an even number of pixels and levels begin at whole lines") {
  CachedLevels const cached = choose_cached_levels(problem_of({{3, 5}, {7, 9}}), 48, 2, 1 << 12);
  CHECK(cached.levels == 0b11);
  CHECK(cached.row_pixels[0] == 6);
  CHECK(cached.row_pixels[1] == 10);
  CHECK(cached.begin[1] == 896);  // 3 * 6 * 48 = 864
}

TEST_CASE("a level of one row is cached whole") {
  CachedLevels const cached = choose_cached_levels(problem_of({{1, 40}}), 64, 4, 40 * 64);
  CHECK(cached.levels == 1);
  CHECK(cached.split == 0);
  CHECK(choose_cached_levels(problem_of({{1, 40}}), 64, 4, 40 * 64 - 1).levels == 0);
}

TEST_CASE("a record counts 4096 pixels of a level in one block") {
  CHECK(choose_cached_levels(problem_of({{64, 64}}), 16, 1, 1 << 20).levels == 1);
  CHECK(choose_cached_levels(problem_of({{64, 66}}), 16, 1, 1 << 20).levels == 0);
  CHECK(choose_cached_levels(problem_of({{128, 64}}), 16, 2, 1 << 20).split == 1);
}

TEST_CASE("where no level fits, the reason has the bytes") {
  ProblemShape shape = corpus_case("encoder").shape;
  shape.value_dtype = shape.output_dtype = MSDA_DTYPE_F16;
  shape.math_mode = MSDA_MATH_FAST;
  shape.head_count = 1;
  shape.head_dim = 32;
  shape.levels = {{200, 200, 4}};
  ProblemCopy const view = shape.copy();
  Problem const problem = api::canonical_problem(&view.c, std::pmr::new_delete_resource());
  int asked = 0;
  for (Variant const& variant : kTable.variants()) {
    if (std::string_view(variant.id).find("f16.d32.p4.h1") == std::string_view::npos) continue;
    CAPTURE(variant.id);
    auto const& entry = kTable[variant];
    Reason const reason = kModel.reject(variant, problem, h200());
    std::int64_t const of_level = (200 + entry.size - 1) / entry.size * 200 * 64;
    CHECK((reason == Reason::kNone) == (of_level <= kRoom));
    if (reason != Reason::kNone) {
      CHECK(reason == Reason::kSharedMemory);
      CHECK(kModel.numbers_of(reason, variant, problem, h200()) ==
            std::to_string(of_level + (195 << 10) - kRoom) +
                " bytes of 199680, with a block's part of the smallest level");
    }
    CHECK(kModel.reject(variant, problem, h200().limited_to(1)) ==
          (entry.size > 1 ? Reason::kSmLimit : reason));
    ++asked;
  }
  CHECK(asked == 5);
}
