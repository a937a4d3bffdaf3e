// The exact results of a case, by a float64 kernel, and how far from them a kernel's may be.
#pragma once

#include "command/check/accuracy.h"
#include "command/measure/plan_runner.h"

#include <string>
#include <vector>

namespace msda::command {

// Compares results of a case, all or some, with the exact ones, part by part: that needs about as
// much memory as the inputs.
Accuracy compare_parts(Case const& input, Engine const& engine,
                       std::vector<NamedArray> const& results);

// All exact results of a case at once, for any number of kernels.
class ExactResults {
 public:
  // `whole` is the case that `input` is a part of, or `input` itself: the bound has a term of the
  // largest of all values.
  ExactResults(Case const& input, Engine const& engine, Case const& whole);

  std::string const& kernel_id() const { return kernel_id_; }

  // The forward result against the bound of msda.h, gradients against 1e-5 + 4 max(W, H) 2^-24 of
  // the largest of their tensor (F64: 1e-13 and 2^-53). Results not asked for may be left out.
  Accuracy compare(std::vector<NamedArray> const& results) const;

  // The part's rows of a forward result.
  ExactResults rows(Part const& part) const;

  // Results and bounds against others of the same case, many times closer than a kernel's have to
  // be.
  Accuracy agreement(ExactResults const& others) const;
  // Every element has to be finite.
  Accuracy finiteness() const;

 private:
  ExactResults() = default;

  std::string kernel_id_;
  std::vector<Expected> expected_;
};

}  // namespace msda::command
