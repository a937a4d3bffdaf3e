// level_start and token_count: what is refused and in which words, and what means the same.

#include "support/runner.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstddef>
#include <optional>
#include <vector>

using namespace msda::test;

namespace {

constexpr std::int32_t kLevelHw[] = {6, 4, 3, 2, 0, 5};  // 24, 6 and no tokens

struct Answer {
  msda_status status;
  std::string message;
  std::vector<std::uint8_t> blob;  // of the plan
};

struct Place {
  std::optional<std::vector<std::int64_t>> level_start;
  std::int64_t token_count = 0;
  std::int32_t value_border = 0;
};

msda_problem problem_of(Place const& place) {
  msda_problem problem{};
  problem.struct_size = sizeof(problem);
  problem.level_hw = kLevelHw;
  problem.level_count = 3;
  problem.point_count = 2;
  problem.batch = 2;
  problem.query_count = 3;
  problem.head_count = 1;
  problem.head_dim = 8;
  problem.value_dtype = MSDA_DTYPE_F32;
  problem.operation = MSDA_BACKWARD;
  problem.value_border = place.value_border;
  problem.level_start = place.level_start ? place.level_start->data() : nullptr;
  problem.token_count = place.token_count;
  return problem;
}

Answer plan(TestHandle const& handle, msda_problem const& problem) {
  msda_plan* made = nullptr;
  msda_status const status = msda_plan_create(handle.get(), &problem, nullptr, &made);
  if (status != MSDA_SUCCESS) return {status, msda_last_error(), {}};
  PlanPtr const owned(made);
  return {status, "", serialize(made)};
}

std::string explained(TestHandle const& handle, msda_problem const& problem) {
  std::size_t bytes = 0;
  REQUIRE(msda_explain(handle.get(), &problem, nullptr, &bytes) == MSDA_SUCCESS);
  std::string text(bytes, '\0');
  REQUIRE(msda_explain(handle.get(), &problem, text.data(), &bytes) == MSDA_SUCCESS);
  return text;
}

}  // namespace

TEST_CASE("levels that end behind the tokens are refused") {
  TestHandle const handle(1);
  struct Refused {
    Place place;
    const char* words;
  };
  std::int64_t const largest = INT64_MAX / 4;
  Refused const refused[] = {
      {{{{-1, 24, 0}}, 0, 0}, "problem.level_start[0] is -1: must be 0 to 2305843009213693927"},
      {{{{0, INT64_MIN, 0}}, 0, 0}, "problem.level_start[1] is -9223372036854775808: must be 0 to"},
      {{{{0, 24, INT64_MAX}}, 0, 0}, "problem.level_start[2] is 9223372036854775807: must be 0 to"},
      {{{{0, largest - 5, 0}}, 0, 0}, "problem.level_start[1] is 2305843009213693946: must be"},
      {{{{0, largest - 6, 0}}, 0, 0}, "value of 2 x 2305843009213693951 x 1 x 8 elements exceeds"},
      {{{{0, 24, 0}}, 29, 0},
       "problem.token_count is 29: must be 0 or at least 30, since level 1 is tokens 24 to 29"},
      {{{}, 29, 0},
       "problem.token_count is 29: must be 0 or at least 30, since level 1 is tokens 24 to 29"},
      {{{}, 1, 0}, "problem.token_count is 1: must be 0 or at least 24, since level 0 is tokens 0"},
      {{{{9, 3, 34}}, 33, 0}, "problem.token_count is 33: must be 0 or at least 34, since level 2"},
      {{{}, -1, 0}, "problem.token_count is -1: must be 0 or more"},
      {{{{0, 48, 68}}, 81, 1},
       "problem.token_count is 81: must be 0 or at least 82, since level 2 is tokens 68 to 81"},
  };
  for (Refused const& item : refused) {
    CAPTURE(item.words);
    Answer const answer = plan(handle, problem_of(item.place));
    CHECK(answer.status == MSDA_ERROR_INVALID_ARGUMENT);
    CAPTURE(answer.message);
    CHECK(answer.message.find(item.words) != std::string::npos);
  }
}

TEST_CASE("levels one after another are one problem, however that is said") {
  TestHandle const handle(1);
  Answer const expected = plan(handle, problem_of({}));
  REQUIRE(expected.message == "");
  CHECK(plan(handle, problem_of({{}, 30, 0})).blob == expected.blob);
  CHECK(plan(handle, problem_of({{{0, 24, 30}}, 0, 0})).blob == expected.blob);
  CHECK(plan(handle, problem_of({{{0, 24, 30}}, 30, 0})).blob == expected.blob);
  CHECK(plan(handle, problem_of({{{0, 24, 0}}, 30, 0})).blob != expected.blob);
  CHECK(plan(handle, problem_of({{{6, 0, 30}}, 30, 0})).blob != expected.blob);
  CHECK(plan(handle, problem_of({{}, 31, 0})).blob != expected.blob);
  // A client that does not know the fields has none of them behind its struct.
  std::int64_t const start[] = {6, 0, 30};
  msda_problem old = problem_of({});
  old.level_start = start;
  old.token_count = 99;
  old.struct_size = offsetof(msda_problem, level_start);
  CHECK(plan(handle, old).blob == expected.blob);
}

TEST_CASE("levels that share tokens are refused by kernels that cannot add") {
  TestHandle const handle(1);
  const char* const words = "does not compute gradients of levels that overlap";
  struct Shared {
    Place place;
    bool overlap;
  };
  for (Shared const& item : {Shared{{{{0, 23, 0}}, 0, 0}, true},
                             {{{{5, 0, 0}}, 0, 0}, true},
                             {{{{6, 0, 8}}, 0, 0}, false},
                             {{{{9, 2, 9}}, 40, 0}, false},
                             {{{{0, 48, 60}}, 0, 1}, true},
                             {{{{34, 0, 20}}, 0, 1}, false}}) {
    msda_problem problem = problem_of(item.place);
    std::string const backward = explained(handle, problem);
    CAPTURE(backward);
    CHECK((backward.find(words) != std::string::npos) == item.overlap);
    CHECK(backward.starts_with(item.overlap ? "1  ref.cpu@1" : "1  simd.cpu.f32"));
    problem.operation = MSDA_FORWARD;
    CHECK(explained(handle, problem).find(words) == std::string::npos);
  }
}
