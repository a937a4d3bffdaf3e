#include "support/result_check.h"

#include "support/expected_reason.h"
#include "support/tolerance.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace msda::test {

void check_results(TestHandle const& handle, TestProblem const& problem, std::string const& id,
                   std::uint64_t placement_seed) {
  CAPTURE(problem.shape.describe());
  RunResult const result = run(handle, problem, id, placement_seed);
  REQUIRE(result.failure == "");
  Expectations const expected(problem, arithmetic_of(id));
  for (TensorRow const& row : tensor_rows()) {
    if (!row.is_result() || !row.belongs_to(problem.shape)) continue;
    CAPTURE(row.name);
    CHECK(compare(expected[row.id], result.values[row.id]).failure == "");
  }
}

void spoil_two_rows(TestProblem& problem) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double>& grad = problem.inputs[TensorId::kGradOutput];
  auto const row = static_cast<std::size_t>(problem.shape.head_count * problem.shape.head_dim);
  for (std::size_t d = 0; d < row; ++d) {
    grad[7 * row + d] = std::numeric_limits<double>::quiet_NaN();
    grad[20 * row + d] = d % 2 == 0 ? kInfinity : -kInfinity;
  }
  problem.settle();
}

}  // namespace msda::test
