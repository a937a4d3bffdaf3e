#include "support/error_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <stdexcept>

namespace msda::test {
namespace {

constexpr double kAllowedGrowth = 3;
constexpr double kNoError = 1e-14;
constexpr std::string_view kTitle =
    "# Errors of results beside float64; what makes this file is said in tests/cases/README.md.";
constexpr std::string_view kColumns = "case,value_dtype,operation,kernel_id,max_error,l2_error";

double number(std::string const& text, std::string const& where) {
  std::size_t used = 0;
  double result = std::nan("");
  try {
    result = std::stod(text, &used);
  } catch (std::exception const&) {
    used = 0;
  }
  if (used == 0 || used != text.size() || !(result >= 0) || !std::isfinite(result)) {
    throw std::runtime_error(fmt::format("{}: '{}' must be a number from 0", where, text));
  }
  return result;
}

bool is_worse(double kept, double found) {
  return !(found <= std::max(kAllowedGrowth * kept, kNoError));  // a NaN is
}

}  // namespace

void ErrorSum::add(Comparison const& comparison) {
  max_error_ = std::max(max_error_, comparison.max_error);
  squared_error_ += comparison.squared_error;
  squared_exact_ += comparison.squared_exact;
}

ResultErrors ErrorSum::total() const {
  double const exact = squared_exact_ == 0 ? 1 : squared_exact_;
  return {max_error_, std::sqrt(squared_error_ / exact)};
}

std::string worse_than(ResultErrors const& kept, ResultErrors const& found) {
  std::string what;
  if (is_worse(kept.max_error, found.max_error)) {
    what =
        fmt::format("the largest error is {:.3g}, kept is {:.3g}", found.max_error, kept.max_error);
  } else if (is_worse(kept.l2_error, found.l2_error)) {
    what = fmt::format("the L2 error is {:.3g}, kept is {:.3g}", found.l2_error, kept.l2_error);
  }
  return what.empty() ? "" : what + fmt::format(": more than {} times", kAllowedGrowth);
}

std::string_view kernel_of_key(std::string_view key) { return key.substr(key.rfind(',') + 1); }

ErrorStore ErrorStore::read(std::string const& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  ErrorStore store;
  int line_number = 0;
  for (std::string line; std::getline(file, line);) {
    std::string const where = fmt::format("{}:{}", path, ++line_number);
    if (line.empty() || line[0] == '#' || line == kColumns) continue;
    std::size_t const last = line.rfind(',');
    std::size_t const before =
        last == 0 || last == std::string::npos ? last : line.rfind(',', last - 1);
    if (std::count(line.begin(), line.end(), ',') != 5) {
      throw std::runtime_error(fmt::format("{}: must have the columns {}", where, kColumns));
    }
    ResultErrors const errors{number(line.substr(before + 1, last - before - 1), where),
                              number(line.substr(last + 1), where)};
    if (!store.errors_.emplace(line.substr(0, before), errors).second) {
      throw std::runtime_error(fmt::format("{}: {} is there twice", where, line.substr(0, before)));
    }
  }
  return store;
}

void ErrorStore::write(std::string const& path) const {
  std::ofstream file(path);
  file << kTitle << "\n" << kColumns << "\n";
  for (auto const& [key, errors] : errors_) {
    file << fmt::format("{},{:.2e},{:.2e}\n", key, errors.max_error, errors.l2_error);
  }
  file.close();
  if (!file) throw std::runtime_error(path + ": cannot be written");
}

ResultErrors const* ErrorStore::find(std::string const& key) const {
  auto const found = errors_.find(key);
  return found == errors_.end() ? nullptr : &found->second;
}

void ErrorStore::keep(std::string const& key, ResultErrors const& errors) {
  ResultErrors& kept = errors_[key];
  kept.max_error = std::max(kept.max_error, errors.max_error);
  kept.l2_error = std::max(kept.l2_error, errors.l2_error);
}

void ErrorStore::forget_if(std::function<bool(std::string_view)> const& condition) {
  std::erase_if(errors_, [&](auto const& entry) { return condition(kernel_of_key(entry.first)); });
}

std::vector<std::string> ErrorStore::keys() const {
  std::vector<std::string> keys;
  for (auto const& [key, errors] : errors_) keys.push_back(key);
  return keys;
}

}  // namespace msda::test
