// What the environment may ask of the tests.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace msda::test {

struct NumberRange {
  std::uint64_t least;
  std::uint64_t most;
};

// The number that the variable holds, or `otherwise` where it is not set or empty. Throws
// std::runtime_error naming the variable, its value and what was allowed.
std::uint64_t environment_number(const char* name, std::uint64_t otherwise, NumberRange allowed);

// MSDA_TEST_SM_LIMIT: the multiprocessors that plans for a GPU keep to where their kernels do, 0
// for all. Where it is set, no case of the corpus is run with limits of its own.
std::optional<std::int32_t> sm_limit_of_tests();

// MSDA_TEST_SHARD, as in 2/8: the test cases that run many problems run one shard of them, so that
// several processes share the work. Where it is not set: 1/1.
struct Shard {
  std::uint64_t number = 1;  // from 1
  std::uint64_t count = 1;

  // Whether the item at this place of a list is in the shard: every `count`-th is.
  bool holds(std::uint64_t place) const { return place % count == number - 1; }
};
Shard shard_of_tests();

// The problems of a test case, one after another: whether the next is in the shard.
class NextInShard {
 public:
  bool operator()() { return shard_.holds(place_++); }

 private:
  Shard const shard_ = shard_of_tests();
  std::uint64_t place_ = 0;
};

// MSDA_TEST_KERNELS, as in "cluster.": tests that go through all kernels of a device take those
// whose ids begin so, or all others if it is "-cluster.".
std::string kernels_of_tests();

// Reads every variable, so that a bad one is reported before the first test. "" or what is wrong.
std::string check_environment();

}  // namespace msda::test
