#include "support/kernel_cases.h"

#include "support/case_file.h"
#include "support/element_formats.h"
#include "support/environment.h"
#include "support/expected_reason.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace msda::test {

void for_kernels_and_cases(TestHandle const& handle, std::vector<const char*> const& names,
                           KernelCheck const& check) {
  NextInShard next_in_shard;
  for (const char* const name : names) {
    CorpusCase const item = corpus_case(name);
    for (ProblemShape shape : item.shapes()) {
      for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
        if (!item.is_for(handle.on_gpu(), operation)) continue;
        shape.operation = operation;
        std::optional<TestProblem> problem;  // made when a kernel runs it
        for (std::string const& id : accepting_kernels(handle, shape)) {
          if (!next_in_shard()) continue;
          std::string const what = id + " on " + name + ": " + shape.describe();
          CAPTURE(what);
          if (!problem) problem = item.make(shape);
          check(*problem, id);
        }
      }
    }
  }
}

Expected expected_of(std::string const& kernel_id, Expectations const& expectations, TensorId id) {
  Expected expected = expectations[id];
  if (id == TensorId::kGradValue || id == TensorId::kOutput || !multiplies_corners(kernel_id)) {
    return expected;
  }
  if (expected.kinds.empty()) {
    std::ranges::transform(expected.exact, std::back_inserter(expected.kinds), kind_of);
  }
  unsigned char const infinities = kind_of(HUGE_VAL) | kind_of(-HUGE_VAL);
  for (unsigned char& kinds : expected.kinds) {
    if ((kinds & infinities) != 0) kinds |= kind_of(std::nan(""));
  }
  return expected;
}

void check_all_kernels(TestHandle const& handle, TestProblem const& problem) {
  CAPTURE(problem.shape.describe());
  ExpectationsByArithmetic expectations(problem);
  for (std::string const& id : accepting_kernels(handle, problem.shape)) {
    CAPTURE(id);
    RunResult const result = run(handle, problem, id, 3);
    REQUIRE(result.failure == "");
    for (TensorRow const& row : tensor_rows()) {
      if (!row.is_result() || !row.belongs_to(problem.shape)) continue;
      CAPTURE(row.name);
      Expected const expected = expected_of(id, expectations[arithmetic_of(id)], row.id);
      CHECK(compare(expected, result.values[row.id]).failure == "");
    }
  }
}

std::optional<ProblemShape> shape_for(TestHandle const& handle, std::string const& id,
                                      msda_operation operation, std::int32_t reference_dim) {
  for (msda_dtype const dtype : kAllDtypes) {
    for (std::int64_t const channels : {8, 16, 32, 64, 128, 256}) {
      for (std::int32_t const points : {4, 8, 2}) {
        for (std::int64_t const heads : {2, 8, 1}) {
          for (msda_math_mode const math : {MSDA_MATH_ACCURATE, MSDA_MATH_FAST}) {
            ProblemShape shape;
            shape.set_dtypes(dtype);
            shape.levels = {{3, 4, points}, {2, 3, points}};
            shape.batch = 2;
            shape.query_count = 3;
            shape.head_count = heads;
            shape.head_dim = channels;
            shape.reference_dim = reference_dim;
            shape.operation = operation;
            shape.math_mode = math;
            if (!is_deterministic(id)) shape.determinism = MSDA_NONDETERMINISTIC;
            if (expected_reason(handle, id, shape).empty()) return shape;
          }
        }
      }
    }
  }
  return std::nullopt;
}

void check_gradient_subsets(msda_plan const* plan, TestProblem const& problem,
                            std::string const& kernel_id, RunResult const& all) {
  Expectations const expected(problem, arithmetic_of(kernel_id));
  std::vector<TensorId> results;
  for (TensorRow const& row : tensor_rows()) {
    if (row.is_result() && row.belongs_to(problem.shape)) results.push_back(row.id);
  }
  for (std::uint32_t subset = 0; subset < 1u << results.size(); ++subset) {
    CAPTURE(subset);
    CallBuffers buffers(problem, plan, 5);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if ((subset >> i & 1) == 0) set_pointer(buffers.c(), results[i], nullptr);
    }
    Executed const executed = execute(plan, buffers);
    REQUIRE(executed.message == "");
    REQUIRE(executed.failure == "");
    for (std::size_t i = 0; i < results.size(); ++i) {
      HostTensor& tensor = buffers.tensor(results[i]);
      if ((subset >> i & 1) == 0) {
        CHECK(tensor.check_untouched() == "");
      } else if (is_deterministic(kernel_id)) {
        CHECK(tensor.bits() == all.bits[static_cast<std::size_t>(results[i])]);
      } else {
        CHECK(compare(expected[results[i]], tensor.values()).failure == "");
      }
    }
  }
}

bool is_near(TestProblem const& problem, std::string const& kernel_id, CallBuffers& buffers) {
  Expectations const expected(problem, arithmetic_of(kernel_id));
  return std::ranges::all_of(tensor_rows(), [&](TensorRow const& row) {
    return !row.is_result() || !row.belongs_to(problem.shape) ||
           compare(expected[row.id], buffers.tensor(row.id).values()).failure.empty();
  });
}

}  // namespace msda::test
