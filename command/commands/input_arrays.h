// The two kinds of input share this: from stored arrays to typed ones, and sizes that must agree.
#pragma once

#include "command/commands/options.h"
#include "command/files/stored_array.h"
#include "command/problem/case_part.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msda::command {

// The type with which files hold a tensor, as the options state it.
TypeWish type_wish(Options const& options, TensorRow const& row);

// make_levels() where the counts fit. `rule` says in the message where the number of levels is
// from: "numbers: the input has".
std::vector<LevelShape> levels_with(std::vector<std::int32_t> const& points,
                                    std::vector<std::int32_t> const& level_hw,
                                    std::string_view label, std::string_view rule);

// S, were this the border.
std::int64_t token_count_with(ProblemShape spec, std::int32_t border);

// The places of levels that an input states.
struct LevelEvidence {
  std::optional<std::int64_t> token_count;  // S
  std::optional<std::vector<std::int64_t>> level_start_index;
  std::string label;  // of what the evidence is
};
// Whether the levels follow one another, with a border or without.
bool follow_each_other(ProblemShape const& spec, std::vector<std::int64_t> const& starts);
// Sets the border, 0 or 1, whichever makes everything that is known agree; starts in another order
// or with gaps are taken as they are, without a border unless an option says so. Tokens of no level
// get a remark.
void place_levels(Case& input, Options const& options, LevelEvidence const& evidence);

// Every size that an option states must be that of the files.
void require_options_agree(ProblemShape const& spec, Options const& options);

// The types after conversion: the spec's, or else what the arrays have. Converts the arrays.
void settle_types(Case& input);

}  // namespace msda::command
