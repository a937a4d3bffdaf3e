// Where levels start changes no bit of a result: levels in reverse order, with tokens of none
// between them, against the same levels one after another.

#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/kernel_cases.h"
#include "support/runner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

using namespace msda::test;

namespace {

const std::vector<const char*> kCases = {"encoder",      "dfine",       "rtdetr",
                                         "bordered",     "empty_level", "unused_level",
                                         "odd_channels", "kept_one",    "many_levels"};

// The last level first, and before level l so many tokens of none.
std::int64_t gap_before(std::size_t l) { return static_cast<std::int64_t>(2 * l % 5); }

ProblemShape moved_shape(ProblemShape shape) {
  std::int64_t end = 0;
  shape.level_start.resize(shape.levels.size());
  for (std::size_t l = shape.levels.size(); l-- > 0;) {
    shape.level_start[l] = end + gap_before(l);
    end = shape.level_start[l] + shape.level_tokens(shape.levels[l]);
  }
  shape.tokens = end + 3;
  return shape;
}

// A tensor of tokens [B][S][M][D] with the levels of `from` where those of `to` are.
template <typename T>
std::vector<T> moved(ProblemShape const& from, ProblemShape const& to, std::vector<T> const& all,
                     T elsewhere) {
  std::int64_t const row = from.head_count * from.head_dim;
  std::vector<T> result(static_cast<std::size_t>(to.batch * to.token_count() * row), elsewhere);
  for (std::int64_t b = 0; b < from.batch; ++b) {
    for (std::size_t l = 0; l < from.levels.size(); ++l) {
      auto const begin = all.begin() + (b * from.token_count() + from.level_starts()[l]) * row;
      std::copy(begin, begin + from.level_tokens(from.levels[l]) * row,
                result.begin() + (b * to.token_count() + to.level_starts()[l]) * row);
    }
  }
  return result;
}

void check_moved(TestHandle const& handle) {
  for_kernels_and_cases(handle, kCases, [&](TestProblem const& problem, std::string const& id) {
    if (!is_deterministic(id)) return;
    TestProblem other = problem;
    other.shape = moved_shape(problem.shape);
    other.inputs[TensorId::kValue] =
        moved(problem.shape, other.shape, problem.inputs[TensorId::kValue],
              std::numeric_limits<double>::quiet_NaN());
    RunResult const expected = run(handle, problem, id);
    RunResult const actual = run(handle, other, id);
    REQUIRE(expected.failure == "");
    REQUIRE(actual.failure == "");
    for (TensorRow const& row : tensor_rows()) {
      if (!row.is_result() || !row.belongs_to(problem.shape)) continue;
      CAPTURE(row.name);
      auto const i = static_cast<std::size_t>(row.id);
      if (row.id == TensorId::kGradValue) {
        CHECK(actual.bits[i] == moved(problem.shape, other.shape, expected.bits[i], {}));
      } else {
        CHECK(actual.bits[i] == expected.bits[i]);
      }
    }
  });
}

}  // namespace

TEST_CASE("where levels start changes no bit") { check_moved(TestHandle()); }

TEST_CASE("where levels start changes no bit, on the GPU" * needs_gpu()) {
  check_moved(TestHandle(gpu_options()));
}
