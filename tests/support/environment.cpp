#include "support/environment.h"

#include "support/random_problem.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace msda::test {
namespace {

constexpr std::uint64_t kMaxShards = 1000;

}  // namespace

std::uint64_t environment_number(const char* name, std::uint64_t otherwise, NumberRange allowed) {
  const char* const set = std::getenv(name);
  std::string_view const text = set == nullptr ? "" : set;
  if (text.empty()) return otherwise;
  std::uint64_t number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  bool const is_number = error == std::errc() && end == text.data() + text.size();
  if (!is_number || number < allowed.least || number > allowed.most) {
    throw std::runtime_error(fmt::format("{}={}: must be a number from {} to {}", name, text,
                                         allowed.least, allowed.most));
  }
  return number;
}

std::optional<std::int32_t> sm_limit_of_tests() {
  constexpr NumberRange kAllowed = {0, std::numeric_limits<std::int32_t>::max()};
  constexpr std::uint64_t kNotSet = kAllowed.most + 1;
  std::uint64_t const limit = environment_number("MSDA_TEST_SM_LIMIT", kNotSet, kAllowed);
  if (limit == kNotSet) return std::nullopt;
  return static_cast<std::int32_t>(limit);
}

Shard shard_of_tests() {
  const char* const set = std::getenv("MSDA_TEST_SHARD");
  std::string_view const text = set == nullptr ? "" : set;
  if (text.empty()) return {};
  Shard shard;
  const char* const end = text.data() + text.size();
  auto const number = std::from_chars(text.data(), end, shard.number);
  bool good = number.ec == std::errc() && number.ptr != end && *number.ptr == '/';
  if (good) {
    auto const count = std::from_chars(number.ptr + 1, end, shard.count);
    good = count.ec == std::errc() && count.ptr == end;
  }
  if (!good || shard.number < 1 || shard.number > shard.count || shard.count > kMaxShards) {
    throw std::runtime_error(fmt::format(
        "MSDA_TEST_SHARD={}: must be NUMBER/COUNT, such as 1/4, with 1 <= NUMBER <= COUNT <= {}",
        text, kMaxShards));
  }
  return shard;
}

std::string kernels_of_tests() {
  const char* const set = std::getenv("MSDA_TEST_KERNELS");
  return set == nullptr ? "" : set;
}

std::string check_environment() {
  try {
    random_range(0);
    sm_limit_of_tests();
    shard_of_tests();
  } catch (std::runtime_error const& error) {
    return error.what();
  }
  return "";
}

}  // namespace msda::test
