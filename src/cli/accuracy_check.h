// Results against ref.cpu@1, the float64 reference, on the same rounded inputs.
#pragma once

#include "cli/plan_runner.h"
#include "cli/problem_spec.h"

#include <cstdint>
#include <string>
#include <vector>

namespace msda::cli {

struct Accuracy {
  std::int64_t value_count = 0;
  double max_error = 0;        // largest |result - reference|
  double max_bound_share = 0;  // largest error as a share of its bound; infinite for a wrong NaN
  bool passed() const { return max_bound_share <= 1; }
  void merge(Accuracy const& other);
};

// The forward result against the bound that msda.h documents at MSDA_MATH_ACCURATE. Gradients have
// no documented bound: they are compared with 1e-5 (F64: 1e-13) of their tensor's largest element.
Accuracy check_accuracy(Case const& input, std::vector<NamedArray> const& results,
                        std::int32_t thread_count);

// The case with only some of its queries, at random places of at most two batch items: what the
// slow reference can check of a large problem. The first and last of each are always among them.
struct Subset {
  Case input;
  std::vector<std::int64_t> batch_items;
  std::vector<std::int64_t> queries;
};
Subset take_subset(Case const& input, std::int64_t query_count, std::uint64_t seed);

// A forward output is checked in the subset's rows. Gradients of values depend on every query, so a
// backward kernel runs once more, on the subset itself.
Accuracy check_subset(Case const& input, std::vector<NamedArray> const& results,
                      Engine const& engine, std::string const& kernel_id, Subset const& subset,
                      std::int32_t thread_count);

}  // namespace msda::cli
