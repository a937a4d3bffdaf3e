// Two functions of C++20 that the library of GCC 10 lacks, with which packages are compiled.
#pragma once

#include <locale.h>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace msda {

// std::bit_cast.
template <typename To, typename From>
To bit_cast(From const& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(static_cast<void*>(&to), &from, sizeof(to));
  return to;
}

// The whole text as a decimal number, whatever the program's locale is; none if it is not one.
inline std::optional<double> parse_decimal(std::string_view text) {
  static locale_t const locale = newlocale(LC_ALL_MASK, "C", nullptr);  // never freed
  // strtod() also takes spaces, a plus sign, hexadecimal digits and names.
  bool const is_decimal =
      !text.starts_with('+') && text.find_first_not_of("0123456789.eE+-") == std::string_view::npos;
  if (text.empty() || !is_decimal) return std::nullopt;
  std::string const terminated(text);
  char* end = nullptr;
  double const value = strtod_l(terminated.c_str(), &end, locale);
  if (end != terminated.c_str() + terminated.size()) return std::nullopt;
  return value;
}

}  // namespace msda
