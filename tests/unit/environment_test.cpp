// What the environment asks of the tests is read with care.

#include "support/environment.h"
#include "support/random_problem.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace msda::test;

namespace {

constexpr const char* kName = "MSDA_TEST_NUMBER_OF_THIS_TEST";
constexpr const char* kShard = "MSDA_TEST_SHARD";

// A variable of the environment, as it was at the end.
class Setting {
 public:
  Setting(const char* name, std::string const& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  Setting(Setting const&) = delete;
  Setting& operator=(Setting const&) = delete;
  ~Setting() {
    if (before_)
      setenv(name_, before_->c_str(), 1);
    else
      unsetenv(name_);
  }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

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

TEST_CASE("shards together are the whole, each problem once") {
  Setting const whole(kShard, "");
  CHECK(shard_of_tests().count == 1);
  CHECK(shard_of_tests().holds(12345));
  RandomRange const all = random_range(23);
  std::uint64_t next = all.first;
  std::vector<int> held(100);
  for (int number = 1; number <= 8; ++number) {
    Setting const one(kShard, fmt::format("{}/8", number));
    RandomRange const range = random_range(23);
    CHECK(range.first == next);
    next += range.count;
    for (std::uint64_t place = 0; place < held.size(); ++place) {
      held[place] += shard_of_tests().holds(place) ? 1 : 0;
    }
  }
  CHECK(next == all.first + all.count);
  CHECK(held == std::vector<int>(100, 1));
}

TEST_CASE("a shard that there is not is refused") {
  for (const char* const bad :
       {"0/4", "5/4", "1/0", "1/1001", "1", "1/", "/4", "1/4x", "a/4", "-1/4", " 1/4", "1/4/2"}) {
    Setting const setting(kShard, bad);
    CHECK_THROWS_WITH_AS(
        shard_of_tests(),
        fmt::format("MSDA_TEST_SHARD={}: must be NUMBER/COUNT, such as 1/4, with 1 <= NUMBER <= "
                    "COUNT <= 1000",
                    bad)
            .c_str(),
        std::runtime_error);
    CHECK(check_environment() != "");
  }
}
