// Every kernel on every case of tests/cases: right, or refused for the reason that is expected.

#include "support/case_file.h"
#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/runner.h"
#include "support/tolerance.h"

#include <doctest/doctest.h>

using namespace msda::test;

namespace {

void check_kernel(TestHandle const& handle, TestProblem const& problem, std::string const& id) {
  CAPTURE(id);
  std::string const reason = expected_reason(handle, id, problem.shape);
  PlanResult const plan = make_plan(handle, problem.shape, id);
  if (!reason.empty()) {
    CHECK(plan.status == MSDA_ERROR_UNSUPPORTED);
    CHECK(plan.message.find("the kernel " + reason) != std::string::npos);
    return;
  }
  REQUIRE(plan.message == "");
  RunResult const result = run_plan(plan.plan.get(), problem, 7);
  REQUIRE(result.failure == "");
  Expectations const expected(problem, arithmetic_of(id));
  for (TensorRow const& row : tensor_rows()) {
    if (!row.is_result || !row.belongs_to(problem.shape)) continue;
    CAPTURE(row.name);
    CHECK(compare(expected[row.id], result.values[row.id]).failure == "");
  }
}

void check_corpus(TestHandle const& handle, msda_operation operation) {
  for (CorpusCase const& item : corpus()) {
    for (ProblemShape shape : item.shapes()) {
      shape.operation = operation;
      TestProblem const problem = item.make(shape);
      CAPTURE(item.name);
      CAPTURE(shape.describe());
      for (std::string const& id : kernel_ids(handle)) check_kernel(handle, problem, id);
    }
  }
}

}  // namespace

TEST_CASE("corpus forward") { check_corpus(TestHandle(), MSDA_FORWARD); }
TEST_CASE("corpus backward") { check_corpus(TestHandle(), MSDA_BACKWARD); }
TEST_CASE("corpus forward on the GPU" * needs_gpu()) {
  check_corpus(TestHandle(gpu_options()), MSDA_FORWARD);
}
TEST_CASE("corpus backward on the GPU" * needs_gpu()) {
  check_corpus(TestHandle(gpu_options()), MSDA_BACKWARD);
}
