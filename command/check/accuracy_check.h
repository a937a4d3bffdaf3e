// Whether a kernel's results for a case are right: all of them, or those of some queries.
#pragma once

#include "command/check/exact_results.h"
#include "command/measure/plan_runner.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msda::command {

// How much of a result is compared with the exact one.
enum class CheckMode { kNone, kSample, kAll };

struct CheckOptions {
  CheckMode mode = CheckMode::kSample;
  std::int64_t query_count = 0;  // of the sample; 0: every one
  std::uint64_t seed = 0;        // of their places
  std::int32_t thread_count = 0;
};

// The exact results are computed once, for any number of kernels.
//
// A sample is compared with ref.cpu, the float64 reference. Forward it is rows of the result;
// gradients of values depend on every query, so a backward kernel runs once more, on a problem of
// the sample's queries alone.
//
// With kAll every element is compared, with what the float64 kernel of the engine's device makes of
// the whole case. That in turn has to agree with ref.cpu on the sample, and to be finite.
class AccuracyCheck {
 public:
  // The case and the engine have to live as long. Inputs have to be finite with kAll.
  AccuracyCheck(Case const& input, Engine const& engine, CheckOptions const& options);

  Accuracy check(std::vector<NamedArray> const& results, std::string const& kernel_id) const;

  // The kernel that results are compared with; empty with kNone.
  std::string reference_id() const;

 private:
  Case const& input_;
  Engine const& engine_;
  Part part_;
  std::optional<Case> sample_input_;
  std::optional<ExactResults> sample_;
  std::optional<ExactResults> whole_;
  Accuracy reference_accuracy_;  // of whole_
};

// Compares the attention weights of fused input with a softmax in float64: the result `attention`
// of the case, some queries at a time. A weight is as wrong as the difference of its logit and the
// largest, which is rounded, its exponential, and a sum of K of them are.
Accuracy check_attention(Case const& input, Array const& attention);

}  // namespace msda::command
