// Lists in messages and reports.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace msda {

// The elements as text with a separator between them. (fmt::join() is compiled anew, with all that
// it formats with, in every file that calls it.)
template <typename Range>
std::string join(Range const& range, std::string_view separator) {
  std::string text;
  bool is_first = true;
  for (auto const& element : range) {
    if (!is_first) text += separator;
    is_first = false;
    text += fmt::format("{}", element);
  }
  return text;
}

}  // namespace msda
