// A problem with its arrays, and some of its batch items and queries as a case of their own.
#pragma once

#include "lab/tensor_table.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace msda::lab {

struct Case {
  ProblemShape spec;
  std::map<std::string, Array, std::less<>> arrays;  // by tensor name
  std::vector<std::string> remarks;                  // for the user, once nothing is wrong

  Array const* find(std::string_view name) const {
    auto const found = arrays.find(name);
    return found == arrays.end() ? nullptr : &found->second;
  }
};

struct Part {
  std::vector<std::int64_t> batch_items;
  std::vector<std::int64_t> queries;
};

// `query_count` queries at random places of at most two batch items; the first and last of each are
// always among them. 0: everything.
Part choose_part(ProblemShape const& spec, std::int64_t query_count, std::uint64_t seed);

// Batch items first .. last - 1 with all queries.
Part batch_range(ProblemShape const& spec, std::int64_t first, std::int64_t last);

// The part's rows of an array [B][Q].. or, without queries, its items of one [B]..
Array take_part(Array const& full, Part const& part, bool has_queries);

Case take_part(Case const& full, Part const& part);

}  // namespace msda::lab
