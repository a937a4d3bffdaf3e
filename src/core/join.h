// Lists as one text, in messages and reports, and texts cut at separators.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <vector>

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

// The parts of a text between separators, one more than there are of these.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    std::size_t const at = text.find(separator);
    pieces.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

}  // namespace msda
