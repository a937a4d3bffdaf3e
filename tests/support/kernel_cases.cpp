#include "support/kernel_cases.h"

#include "support/case_file.h"
#include "support/expected_reason.h"
#include "support/tolerance.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace msda::test {

void for_kernels_and_cases(TestHandle const& handle, std::vector<const char*> const& names,
                           KernelCheck const& check) {
  for (const char* const name : names) {
    CorpusCase const& item = corpus_case(name);
    for (ProblemShape shape : item.shapes()) {
      for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
        if (!item.is_for(handle.on_gpu(), operation)) continue;
        shape.operation = operation;
        TestProblem const problem = item.make(shape);
        for (std::string const& id : accepting_kernels(handle, shape)) {
          std::string const what = id + " on " + name + ": " + shape.describe();
          CAPTURE(what);
          check(problem, id);
        }
      }
    }
  }
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
