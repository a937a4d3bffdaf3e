// The errors that kernels had on some shapes when they were last looked at, tests/cases/errors.csv.
// A kernel that keeps its bound may still have become worse: more than 3 times what is kept fails.
#pragma once

#include "support/tolerance.h"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace msda::test {

// Errors of all results of a call: the largest, and the root of the sum of their squares over that
// of the exact numbers'.
struct ResultErrors {
  double max_error = 0;
  double l2_error = 0;
};

class ErrorSum {
 public:
  void add(Comparison const& comparison);
  ResultErrors total() const;

 private:
  double max_error_ = 0, squared_error_ = 0, squared_exact_ = 0;
};

// "" or in what the errors are more than 3 times those kept. Errors below what float64 itself makes
// of numbers of magnitude 1 are none.
std::string worse_than(ResultErrors const& kept, ResultErrors const& found);

// Errors by "case,value_dtype,operation,kernel_id".
class ErrorStore {
 public:
  // Throws std::runtime_error naming file and line.
  static ErrorStore read(std::string const& path);
  void write(std::string const& path) const;

  ResultErrors const* find(std::string const& key) const;
  // Keeps the larger ones where there are some from an earlier call.
  void keep(std::string const& key, ResultErrors const& errors);
  void forget_if(std::function<bool(std::string_view kernel_id)> const& condition);
  std::vector<std::string> keys() const;

 private:
  std::map<std::string, ResultErrors> errors_;
};

std::string_view kernel_of_key(std::string_view key);

}  // namespace msda::test
