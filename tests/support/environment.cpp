#include "support/environment.h"

#include "support/random_problem.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace msda::test {

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

std::int32_t sm_limit_of_tests() {
  constexpr NumberRange kAllowed = {1, std::numeric_limits<std::int32_t>::max()};
  return static_cast<std::int32_t>(environment_number("MSDA_TEST_SM_LIMIT", 0, kAllowed));
}

std::string check_environment() {
  try {
    random_range(0);
    sm_limit_of_tests();
  } catch (std::runtime_error const& error) {
    return error.what();
  }
  return "";
}

}  // namespace msda::test
