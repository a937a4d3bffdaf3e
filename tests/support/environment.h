// What the environment may ask of the tests.
#pragma once

#include <cstdint>
#include <string>

namespace msda::test {

struct NumberRange {
  std::uint64_t least;
  std::uint64_t most;
};

// The number that the variable holds, or `otherwise` where it is not set or empty. Throws
// std::runtime_error naming the variable, its value and what was allowed.
std::uint64_t environment_number(const char* name, std::uint64_t otherwise, NumberRange allowed);

// MSDA_TEST_SM_LIMIT: the multiprocessors that plans for a GPU keep to where their kernels do; 0
// where it is not set: all.
std::int32_t sm_limit_of_tests();

// Reads every variable, so that a bad one is reported before the first test. "" or what is wrong.
std::string check_environment();

}  // namespace msda::test
