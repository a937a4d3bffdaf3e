// A problem in the caller's form with its arrays: what plan blobs and tuning records keep, and what
// the command and the tests make. Who reads one from a blob or a text trusts it in nothing and
// passes it through the same checks as the caller's own structs.
#pragma once

#include "core/problem.h"

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace msda {

struct ProblemCopy {
  msda_problem c{};  // points into the arrays, from settle() on
#define MSDA_ARRAY(name, type) std::vector<type> name;
#include "core/problem_fields.inc"

  ProblemCopy() = default;
  ProblemCopy(ProblemCopy&&) = default;
  ProblemCopy& operator=(ProblemCopy&&) = default;
  ProblemCopy(ProblemCopy const& other) : c(other.c) {
#define MSDA_ARRAY(name, type) name = other.name;
#include "core/problem_fields.inc"
    settle();
  }

  // Sets the struct's size, pointers and counts; false where the arrays' lengths do not fit.
  bool settle() {
    c.struct_size = sizeof(c);
    c.level_count = static_cast<std::int32_t>(point_counts.size());
    c.query_grid_count = static_cast<std::int32_t>(query_hw.size() / 2);
#define MSDA_ARRAY(name, type) c.name = name.empty() ? nullptr : name.data();
#include "core/problem_fields.inc"
    constexpr auto kLargest = std::size_t{std::numeric_limits<std::int32_t>::max()};
    bool const starts_fit = level_start.empty() || level_start.size() == point_counts.size();
    return level_hw.size() == 2 * point_counts.size() && starts_fit && query_hw.size() % 2 == 0 &&
           level_hw.size() <= kLargest && query_hw.size() <= kLargest;
  }
};

ProblemCopy copy_of(Problem const& problem);

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
template <typename Copy, typename Visit>
void visit_arrays(Copy& copy, Visit visit) {
#define MSDA_ARRAY(name, type) visit(#name, copy.name);
#include "core/problem_fields.inc"
}

// "0.1.0": what is kept for later belongs to one version of the library.
std::string version_text();

}  // namespace msda
