// How far a result may be from the exact one. Every comparison of numbers in the tests ends here.
#pragma once

#include "support/oracle.h"
#include "support/test_problem.h"

#include "command/check/forward_bound.h"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace msda::test {

using command::Arithmetic;

// Of one result tensor: what is exact, and how far from it each element may be before it is rounded
// to the storage type. A derivative at a pixel line, of which rounding chooses the side, lies
// between exact - below and exact + above; elsewhere, and where the vectors are empty, both are 0.
struct Expected {
  msda_dtype dtype = MSDA_DTYPE_F32;
  std::vector<double> exact;
  std::vector<double> bound;
  std::vector<double> below = {};
  std::vector<double> above = {};
  // Where rounding chooses the side of a pixel line, it may choose with it whether what is no
  // number takes part: of each element the kinds of results that there are, see kind_of(). Empty:
  // those of `exact` alone. An element that may be finite has a finite number in `exact`.
  std::vector<unsigned char> kinds = {};
};

// A bit for each of: NaN, infinity, its negative, any finite number.
unsigned char kind_of(double x);

// Expectations by TensorId; results that the problem does not have are empty.
class Expectations {
 public:
  Expectations(TestProblem const& problem, Arithmetic arithmetic);
  Expected const& operator[](TensorId id) const { return by_id_[static_cast<std::size_t>(id)]; }

 private:
  std::array<Expected, kTensorCount> by_id_;
};

// Expectations of one problem, each computed when a kernel of its arithmetic first asks for it.
class ExpectationsByArithmetic {
 public:
  explicit ExpectationsByArithmetic(TestProblem const& problem) : problem_(problem) {}
  Expectations const& operator[](Arithmetic arithmetic) {
    return computed_.try_emplace(arithmetic, problem_, arithmetic).first->second;
  }

 private:
  TestProblem const& problem_;
  std::map<Arithmetic, Expectations> computed_;
};

struct Comparison {
  std::string failure;     // "" or the first element that is off, with its numbers
  double worst_share = 0;  // the largest error, of what was allowed
  double max_error = 0;    // of finite numbers, as the next two
  double squared_error = 0;
  double squared_exact = 0;
};

// NaN must meet NaN and infinity the same infinity.
Comparison compare(Expected const& expected, std::vector<double> const& actual);

}  // namespace msda::test
