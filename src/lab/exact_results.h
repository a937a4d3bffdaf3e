// The exact results of a case, by a float64 kernel, and how far from them a kernel's may be.
#pragma once

#include "lab/accuracy.h"
#include "lab/plan_runner.h"

#include <string>
#include <vector>

namespace msda::lab {

class ExactResults {
 public:
  // By the kernel that takes every problem of the engine's device: ref.cpu, or on a GPU the generic
  // one. It gets the case in float64, to which every type converts exactly, a few batch items at a
  // time so that little memory is enough. `whole` is the case that `input` is a part of, or `input`
  // itself: the bound has a term of the largest of all values.
  ExactResults(Case const& input, Engine const& engine, Case const& whole);

  std::string const& kernel_id() const { return kernel_id_; }

  // The forward result against the bound of msda.h. Gradients have no documented bound: an element
  // may be off by 1e-5 + 4 max(W, H) 2^-24 (F64: 1e-13 and 2^-53) of the largest of its tensor.
  // Results that were not asked for may be left out.
  Accuracy compare(std::vector<NamedArray> const& results) const;

  // Of a forward result, the part's rows.
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

}  // namespace msda::lab
