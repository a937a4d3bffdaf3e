// The corpus of problems in tests/cases. A line is a name and key=value words, the same that the
// msda command takes, so that it can be pasted behind `msda explain`; README.md there lists them.
#pragma once

#include "support/random_problem.h"

#include <cstdint>
#include <string>
#include <vector>

namespace msda::test {

struct CorpusCase {
  std::string name;
  ProblemShape shape;
  DataKind data;
  bool gives_dtype = false;  // else it stands for itself with every value type
  bool only_gpu = false;     // says nothing of a CPU kernel that others do not
  bool only_forward = false;
  bool only_plans = false;  // is about who takes it and who refuses it; no kernel runs it
  // Kernels on a GPU run it with each of these as well, where they keep to one.
  std::vector<std::int32_t> sm_count_limits;

  bool is_for(bool gpu, msda_operation operation) const {
    return (gpu || !only_gpu) && (operation == MSDA_FORWARD || !only_forward);
  }

  // The shapes to run: one, or one for each value type.
  std::vector<ProblemShape> shapes() const;
  // The same numbers every time: they follow from the name.
  TestProblem make(ProblemShape const& with_dtypes) const;
};

// All files, in the order of their names. Throws std::runtime_error naming file and line.
std::vector<CorpusCase> const& corpus();
CorpusCase const& corpus_case(std::string const& name);

}  // namespace msda::test
