// The golden vectors through every kernel that takes them.

#include "support/golden.h"
#include "support/environment.h"
#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/result_check.h"
#include "support/runner.h"
#include "support/tolerance.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <iterator>
#include <vector>

using namespace msda::test;

namespace {

void check_float64(TestHandle const& handle, GoldenCase const& golden, msda_operation operation) {
  TestProblem problem = golden.problem;
  problem.shape.operation = operation;
  RunResult const result = run(handle, problem, "ref.cpu@1");
  REQUIRE(result.failure == "");
  for (TensorRow const& row : tensor_rows()) {
    if (!row.is_result() || !row.belongs_to(problem.shape)) continue;
    CAPTURE(row.name);
    CHECK(difference_from_file(golden.results[row.id], result.values[row.id]) == "");
  }
}

// The same problem in another storage type, against the oracle on the rounded inputs.
void check_rounded(TestHandle const& handle, GoldenCase const& golden, msda_dtype value_dtype,
                   msda_operation operation) {
  TestProblem problem = golden.problem;
  problem.shape.operation = operation;
  problem.shape.set_dtypes(value_dtype);
  problem.settle();
  for (std::string const& id : accepting_kernels(handle, problem.shape)) {
    CAPTURE(id);
    check_results(handle, problem, id, 1);
  }
}

std::vector<GoldenCase> both_modes() {
  std::vector<GoldenCase> cases = golden_cases();
  std::ranges::copy(nearest_golden_cases(), std::back_inserter(cases));
  return cases;
}

void check_all_types(TestHandle const& handle) {
  NextInShard next_in_shard;
  for (GoldenCase const& golden : both_modes()) {
    for (msda_dtype const value_dtype : kAllDtypes) {
      if (!next_in_shard()) continue;
      CAPTURE(golden.name);
      CAPTURE(type_name(value_dtype));
      check_rounded(handle, golden, value_dtype, MSDA_FORWARD);
      check_rounded(handle, golden, value_dtype, MSDA_BACKWARD);
    }
  }
}

}  // namespace

TEST_CASE("all golden vectors are there") {
  CHECK(golden_cases().size() == 16);
  CHECK(nearest_golden_cases().size() == 4);
}

TEST_CASE("golden vectors in float64 forward and backward") {
  TestHandle const handle;
  NextInShard next_in_shard;
  for (GoldenCase const& golden : both_modes()) {
    if (!next_in_shard()) continue;
    CAPTURE(golden.name);
    check_float64(handle, golden, MSDA_FORWARD);
    check_float64(handle, golden, MSDA_BACKWARD);
  }
}

TEST_CASE("golden vectors in every storage type through every kernel") {
  check_all_types(TestHandle());
}
TEST_CASE("golden vectors in every storage type on the GPU" * needs_gpu()) {
  check_all_types(TestHandle(gpu_options()));
}
