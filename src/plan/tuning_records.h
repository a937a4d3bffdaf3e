// Results of tuning, which a handle has and which are exchanged as text: which kernel was the
// fastest for a problem, on a device, with a version of the library.
//
// The text is for people too. After a first line with the format's version, each line is a record:
// name=value words in a fixed order with one space between them, the fields of msda_problem with
// enumerators by their numbers and lists by commas ("none": empty), device= in double quotes.
#pragma once

#include "core/device.h"
#include "core/problem.h"
#include "core/problem_copy.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msda {

// The key of a record: everything that decides which kernel is the fastest but the data.
struct TuningKey {
  std::string version;  // of the library
  std::string device;
  std::int32_t thread_count = 0;
  std::int32_t sm_count_limit = 0;
  std::uint64_t workspace_limit_bytes = 0;
  ProblemCopy problem;
};

struct TuningRecord {
  std::string kernel_id;  // with its revision; this library need not have it
  double median_us = 0;
  std::string heuristic_id;
  double heuristic_us = 0;
};

// A record of a text, checked by itself; its problem is not.
struct TuningLine {
  std::size_t number = 0;  // in the text, from 1
  TuningKey key;
  TuningRecord record;
};

TuningKey tuning_key(Problem const& problem, Device const& device,
                     std::size_t workspace_limit_bytes);

// Throws MSDA_ERROR_INVALID_ARGUMENT with the line and what is wrong there, MSDA_ERROR_STALE_PLAN
// for another version of the format.
std::vector<TuningLine> parse_tuning_text(std::string_view text);

class TuningRecords {
 public:
  explicit TuningRecords(std::pmr::memory_resource* memory) : records_(memory) {}

  // Replaces records of the same keys. All are added, or none and it throws.
  void add(std::vector<TuningLine> const& lines);
  // The id of the kernel that was the fastest.
  std::optional<std::string> find_kernel_id(TuningKey const& key) const;
  // The text of all, sorted.
  std::string text() const;

 private:
  using Text = std::pmr::string;
  struct Found {
    Text kernel_id;
    Text words;  // the record's part of its line
  };
  using Map = std::pmr::map<Text, Found, std::less<>>;  // by the key's part of the line

  mutable std::mutex mutex_;
  Map records_;
};

}  // namespace msda
