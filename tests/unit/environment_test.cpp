// What the environment asks of the tests is read with care.

#include "support/environment.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

using namespace msda::test;

namespace {

constexpr const char* kName = "MSDA_TEST_NUMBER_OF_THIS_TEST";

std::string error_of(const char* text) {
  setenv(kName, text, 1);
  std::string message;
  try {
    environment_number(kName, 7, {1, 100});
  } catch (std::runtime_error const& error) {
    message = error.what();
  }
  unsetenv(kName);
  return message;
}

}  // namespace

TEST_CASE("a number of the environment is taken, or refused by name") {
  CHECK(environment_number(kName, 7, {1, 100}) == 7);
  for (const char* const good : {"", "1", "100"}) CHECK(error_of(good) == "");
  setenv(kName, "42", 1);
  CHECK(environment_number(kName, 7, {1, 100}) == 42);
  unsetenv(kName);
  for (const char* const bad : {"0", "101", "-1", "3x", "x", " 3", "1e2", "99999999999999999999"}) {
    CHECK(error_of(bad) == std::string(kName) + "=" + bad + ": must be a number from 1 to 100");
  }
}
