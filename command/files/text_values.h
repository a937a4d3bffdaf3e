// From the text of an option to its value. On bad text each throws InputError with what is allowed
// ("must be ..."); the caller adds which option it was.
#pragma once

#include <msda.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace msda::command {

std::int64_t parse_integer(std::string const& text, std::int64_t least = 0,
                           std::int64_t most = std::numeric_limits<std::int64_t>::max());
bool parse_bool(std::string const& text);
msda_dtype parse_type(std::string const& text);
msda_dtype parse_wide_type(std::string const& text);  // all but scaled types
// "92x160,46x80" to [L][2] = (H, W).
std::vector<std::int32_t> parse_levels(std::string const& text);
// "4" or "3,6,3".
std::vector<std::int32_t> parse_points(std::string const& text);
// "0,96", tokens.
std::vector<std::int64_t> parse_starts(std::string const& text);
std::vector<std::string> parse_names(std::string const& text);
msda_point_locality parse_locality(std::string const& text);  // what locality_name() gives
msda_sampling_mode parse_sampling(std::string const& text);   // bilinear or nearest
const char* locality_name(msda_point_locality locality);

// The candidate most like `word`, or "" if none is.
std::string nearest(std::string_view word, std::vector<std::string> const& candidates);
// "; did you mean 'batch'?", or "".
std::string suggestion(std::string_view word, std::vector<std::string> const& candidates);

}  // namespace msda::command
