// How far the elements of a result are from the exact ones.
#pragma once

#include "command/files/array.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace msda::command {

struct Accuracy {
  std::int64_t value_count = 0;
  std::int64_t wrong_count = 0;
  double max_error = 0;        // largest |result - exact|
  double max_bound_share = 0;  // largest share of a bound, half an ulp of the type taken off error
  std::string first_wrong;     // "output[0,7,3,5] is 1, exact 0.5: off by 0.5, allowed 1e-05"

  bool passed() const { return wrong_count == 0; }
  void merge(Accuracy const& other);
};

// Elements to compare with: float64 arrays of one shape. `bound` is how far an element may be from
// `exact` before it is rounded to its type; one number is for all.
struct Expected {
  std::string name;
  msda_dtype type = MSDA_DTYPE_NONE;  // that results are rounded to
  Array exact;
  Array bound;
  Shape origin = {};  // of its first element in the whole result; empty: zeros
};

// Every element of `result`, which are those that are expected, each bound times `factor`. NaN has
// to meet NaN, and infinity the same infinity.
Accuracy compare(Array const& result, Expected const& expected, double factor = 1);

// Every element of an array of float64 has to be finite.
Accuracy check_finite(std::string_view name, Array const& array);

}  // namespace msda::command
