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

bool is_near(TestProblem const& problem, std::string const& kernel_id, CallBuffers& buffers) {
  Expectations const expected(problem, arithmetic_of(kernel_id));
  return std::ranges::all_of(tensor_rows(), [&](TensorRow const& row) {
    return !row.is_result() || !row.belongs_to(problem.shape) ||
           compare(expected[row.id], buffers.tensor(row.id).values()).failure.empty();
  });
}

}  // namespace msda::test
