// A problem with its arrays, and a part of its batch items, queries, heads and channels as a case
// of their own.
#pragma once

#include "command/problem/problem_shape.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace msda::command {

struct Case {
  ProblemShape spec;
  std::map<std::string, Array, std::less<>> arrays;  // by tensor name
  std::vector<std::string> remarks;                  // for the user, once nothing is wrong

  Array const* find(std::string_view name) const {
    auto const found = arrays.find(name);
    return found == arrays.end() ? nullptr : &found->second;
  }
};

// Numbers in ascending order.
struct Part {
  std::vector<std::int64_t> batch_items;
  std::vector<std::int64_t> queries;
  std::vector<std::int64_t> heads;
  std::vector<std::int64_t> channels;

  bool operator==(Part const&) const = default;
  // The indices of an axis by its letter; null: every part has all of it.
  std::vector<std::int64_t> const* of(char axis) const {
    return axis == 'B'   ? &batch_items
           : axis == 'Q' ? &queries
           : axis == 'M' ? &heads
           : axis == 'D' ? &channels
                         : nullptr;
  }
};

// first .. last - 1.
std::vector<std::int64_t> number_range(std::int64_t first, std::int64_t last);

Part whole_part(ProblemShape const& spec);
// `query_count` queries at random places of at most two batch items; the first and last of each are
// always among them. 0: everything.
Part choose_part(ProblemShape const& spec, std::int64_t query_count, std::uint64_t seed);

// The problem of the part alone.
ProblemShape take_part(ProblemShape const& spec, Part const& part);
// The part's elements of an array with these axes, and back into their places.
Array take_part(Array const& full, std::string_view axes, Part const& part);
void put_part(Array& full, std::string_view axes, Part const& part, Array const& elements);

Case take_part(Case const& full, Part const& part);

}  // namespace msda::command
