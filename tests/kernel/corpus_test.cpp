// Every kernel on every case of tests/cases: right, or refused for the reason that is expected.
// With MSDA_TEST_FAMILY, the kernels of that family alone.

#include "support/case_file.h"
#include "support/environment.h"
#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/kernel_cases.h"
#include "support/runner.h"
#include "support/tolerance.h"

#include <doctest/doctest.h>

#include <optional>
#include <vector>

#ifndef MSDA_TEST_FAMILY
#define MSDA_TEST_FAMILY ""
#endif

using namespace msda::test;

namespace {

// The plan of a kernel that is expected to take the shape; none of one that refuses it as expected.
PlanPtr check_plan(TestHandle const& handle, ProblemShape const& shape, std::string const& id,
                   std::int32_t sm_count_limit) {
  std::string const reason = expected_reason(handle, id, shape);
  PlanResult plan = make_plan(handle, shape, id, sm_count_limit);
  if (reason.empty()) {
    REQUIRE(plan.message == "");
  } else {
    CHECK(plan.status == MSDA_ERROR_UNSUPPORTED);
    CHECK(plan.message.find("the kernel " + reason) != std::string::npos);
  }
  return std::move(plan.plan);
}

// A problem of the corpus, made when the first kernel runs it, and what is expected of it.
class LazyProblem {
 public:
  LazyProblem(CorpusCase const& item, ProblemShape const& shape) : item_(item), shape_(shape) {}

  void check(msda_plan const* plan, std::string const& id) {
    if (!problem_) expected_.emplace(problem_.emplace(item_.make(shape_)));
    RunResult const result = run_plan(plan, *problem_, 7);
    REQUIRE(result.failure == "");
    for (TensorRow const& row : tensor_rows()) {
      if (!row.is_result() || !row.belongs_to(shape_)) continue;
      CAPTURE(row.name);
      Expected const expected = expected_of(id, (*expected_)[arithmetic_of(id)], row.id);
      CHECK(compare(expected, result.values[row.id]).failure == "");
    }
  }

 private:
  CorpusCase const& item_;
  ProblemShape const& shape_;
  std::optional<TestProblem> problem_;
  std::optional<ExpectationsByArithmetic> expected_;
};

void check_case(TestHandle const& handle, CorpusCase const& item, ProblemShape const& shape) {
  std::optional<std::int32_t> const only_limit = sm_limit_of_tests();
  std::vector<std::int32_t> limits = {only_limit.value_or(0)};
  if (handle.on_gpu() && !only_limit) {
    limits.insert(limits.end(), item.sm_count_limits.begin(), item.sm_count_limits.end());
  }
  LazyProblem problem(item, shape);
  for (std::string const& id : kernel_ids(handle)) {
    if (!id.starts_with(MSDA_TEST_FAMILY)) continue;
    for (std::int32_t const limit : limits) {
      if (limit != 0 && !keeps_sm_limit(id, limit)) continue;
      CAPTURE(id);
      CAPTURE(limit);
      PlanPtr const plan = check_plan(handle, shape, id, limit);
      if (plan != nullptr && !item.only_plans) problem.check(plan.get(), id);
    }
  }
}

void check_corpus(TestHandle const& handle, msda_operation operation) {
  NextInShard next_in_shard;
  for (CorpusCase const& item : corpus()) {
    if (!item.is_for(handle.on_gpu(), operation)) continue;
    for (ProblemShape shape : item.shapes()) {
      if (!next_in_shard()) continue;
      shape.operation = operation;
      CAPTURE(item.name);
      CAPTURE(shape.describe());
      check_case(handle, item, shape);
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
