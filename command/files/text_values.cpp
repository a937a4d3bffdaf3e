#include "command/files/text_values.h"

#include "command/files/element_type.h"
#include "command/files/input_error.h"
#include "core/join.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

namespace msda::command {

namespace {

template <typename T>
std::optional<T> parse_whole(std::string_view text) {
  T value{};
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Numbers of 0 or more with commas between.
template <typename T>
std::vector<T> parse_list(std::string_view text, std::string_view rule) {
  std::vector<T> numbers;
  for (std::string_view const number : split(text, ',')) {
    auto const value = parse_whole<T>(number);
    if (!value || *value < 0) bad_input("{}", rule);
    numbers.push_back(*value);
  }
  return numbers;
}

msda_dtype type_named(std::string const& text, bool may_be_scaled) {
  auto const type = type_from_name(text);
  if (type && (may_be_scaled || !is_scaled(*type))) return *type;
  bad_input("must be {}", type_name_list(may_be_scaled));
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      std::size_t const replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::int64_t parse_integer(std::string const& text, std::int64_t least, std::int64_t most) {
  auto const value = parse_whole<std::int64_t>(text);
  if (!value || *value < least || *value > most) {
    bad_input("must be a whole number from {} to {}", least, most);
  }
  return *value;
}

bool parse_bool(std::string const& text) {
  constexpr std::string_view kWords[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
  auto const* const found = std::ranges::find(kWords, text);
  if (found == std::end(kWords)) bad_input("must be 1 or 0 (or true or false)");
  return (found - kWords) % 2 == 1;
}

msda_dtype parse_type(std::string const& text) { return type_named(text, true); }

msda_dtype parse_wide_type(std::string const& text) { return type_named(text, false); }

std::vector<std::int32_t> parse_levels(std::string const& text) {
  std::vector<std::int32_t> levels;
  for (std::string_view const level : split(text, ',')) {
    auto const sides = split(level, 'x');
    for (std::string_view const side : sides) {
      auto const value = parse_whole<std::int32_t>(side);
      if (sides.size() != 2 || !value || *value < 0) {
        bad_input("must be HEIGHTxWIDTH of each level with commas between, such as 92x160,46x80");
      }
      levels.push_back(*value);
    }
  }
  return levels;
}

std::vector<std::int32_t> parse_points(std::string const& text) {
  return parse_list<std::int32_t>(
      text, "must be a number from 0 to 2147483647, or one for each level such as 3,6,3");
}

std::vector<std::int64_t> parse_starts(std::string const& text) {
  return parse_list<std::int64_t>(
      text, "must be the first token of each level with commas between, such as 0,14720");
}

std::vector<std::string> parse_names(std::string const& text) {
  std::vector<std::string> names;
  for (std::string_view const piece : split(text, ',')) names.emplace_back(piece);
  if (std::find(names.begin(), names.end(), "") != names.end()) {
    bad_input("must be values with commas between, none of them empty");
  }
  return names;
}

const char* locality_name(msda_point_locality locality) {
  return locality == MSDA_POINTS_LOCAL       ? "local"
         : locality == MSDA_POINTS_SCATTERED ? "scattered"
                                             : "unknown";
}

msda_point_locality parse_locality(std::string const& text) {
  for (msda_point_locality const locality :
       {MSDA_POINTS_UNKNOWN, MSDA_POINTS_LOCAL, MSDA_POINTS_SCATTERED}) {
    if (text == locality_name(locality)) return locality;
  }
  bad_input("must be unknown, local or scattered");
}

msda_sampling_mode parse_sampling(std::string const& text) {
  if (text != "bilinear" && text != "nearest") bad_input("must be bilinear or nearest");
  return text == "nearest" ? MSDA_SAMPLING_NEAREST : MSDA_SAMPLING_BILINEAR;
}

std::string nearest(std::string_view word, std::vector<std::string> const& candidates) {
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (std::string const& candidate : candidates) {
    std::size_t const distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggestion(std::string_view word, std::vector<std::string> const& candidates) {
  std::string const best = nearest(word, candidates);
  return best.empty() ? "" : fmt::format("; did you mean '{}'?", best);
}

}  // namespace msda::command
