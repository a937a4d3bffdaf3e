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
#define MSDA_ARRAY(name, type) std::vector<type> name;
#include "core/problem_fields.inc"

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
#define MSDA_STRIDES(name, tensors) visit(#name, std::span(problem.name));
#define MSDA_SIZE(name) visit(#name, std::span(&problem.name, 1));
#define MSDA_CHOICE(name, type, ...) visit(#name, std::span(&problem.name, 1));
#define MSDA_DTYPE(name, otherwise) visit(#name, std::span(&problem.name, 1));
#define MSDA_DERIVED(name) visit(#name, std::span(&problem.name, 1));
#include "core/problem_fields.inc"
}
// visit(name, numbers) for every array.
template <typename Stored, typename Visit>
void visit_arrays(Stored& stored, Visit visit) {
#define MSDA_ARRAY(name, type) visit(#name, stored.name);
#include "core/problem_fields.inc"
}

// "0.1.0": what is kept for later belongs to one version of the library.
std::string version_text();

}  // namespace msda
