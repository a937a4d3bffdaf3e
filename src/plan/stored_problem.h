// A problem in the caller's form, as plan blobs and tuning records keep it: whoever reads one
// trusts it in nothing and passes view() through the same checks as the caller's own structs.
#pragma once

#include "core/problem.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msda {

// With the arrays it points to.
struct StoredProblem {
  msda_problem problem{};
  std::vector<std::int32_t> level_hw;      // [L][2]
  std::vector<std::int32_t> point_counts;  // [L]
  std::vector<std::int32_t> query_hw;      // [grids][2]
  std::vector<std::int64_t> level_start;   // [L], or empty: one after another

  // Sets the struct's size and counts from the arrays; false where their lengths do not fit.
  bool settle_counts();
  // The struct with its pointers set into this object.
  msda_problem view() const;
};

StoredProblem stored_form(Problem const& problem);

// visit(name, numbers) for every field of a problem but its size, its arrays and their lengths;
// `numbers` is a span of one number, or of the three of a group of strides. Problem may be const.
template <typename P, typename Visit>
void visit_fields(P& problem, Visit visit) {
  visit("value_strides", std::span(problem.value_strides));
  visit("coord_strides", std::span(problem.coord_strides));
  visit("weight_strides", std::span(problem.weight_strides));
  visit("output_strides", std::span(problem.output_strides));
  auto const visit_one = [&visit](std::string_view name, auto& number) {
    visit(name, std::span(&number, 1));
  };
  visit_one("batch", problem.batch);
  visit_one("query_count", problem.query_count);
  visit_one("head_count", problem.head_count);
  visit_one("head_dim", problem.head_dim);
  visit_one("token_count", problem.token_count);
  visit_one("value_border", problem.value_border);
  visit_one("reference_dim", problem.reference_dim);
  visit_one("operation", problem.operation);
  visit_one("input_mode", problem.input_mode);
  visit_one("value_dtype", problem.value_dtype);
  visit_one("coord_dtype", problem.coord_dtype);
  visit_one("weight_dtype", problem.weight_dtype);
  visit_one("output_dtype", problem.output_dtype);
  visit_one("grad_value_dtype", problem.grad_value_dtype);
  visit_one("math_mode", problem.math_mode);
  visit_one("determinism", problem.determinism);
  visit_one("point_locality", problem.point_locality);
}

// "0.1.0": what is kept for later belongs to one version of the library.
std::string version_text();

}  // namespace msda
