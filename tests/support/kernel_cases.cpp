#include "support/kernel_cases.h"

#include "support/case_file.h"

#include <doctest/doctest.h>

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

}  // namespace msda::test
