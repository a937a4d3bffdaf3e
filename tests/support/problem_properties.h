// What a random problem is like, in words, so that tests can count which pairs of properties come
// together.
#pragma once

#include "support/random_problem.h"

#include <string>
#include <vector>

namespace msda::test {

// A property and its value, "coord_dtype f16". A problem has at most one value of a property.
struct Property {
  std::string name;
  std::string value;

  std::string text() const { return value.empty() ? name : name + " " + value; }
  auto operator<=>(Property const&) const = default;
};

// What numbers are like counts only where there is a number.
std::vector<Property> properties_of(RandomDraw const& draw);

// Every property and value that random problems are to have.
std::vector<Property> all_properties();

// Whether no problem can have both, or random problems are not drawn to: the reasons are in the
// list in problem_properties.cpp.
bool exclude_each_other(Property const& a, Property const& b);

}  // namespace msda::test
