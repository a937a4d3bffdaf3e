// The two kinds of input share this: from stored arrays to typed ones, and sizes that must agree.
#pragma once

#include "cli/options.h"
#include "lab/case_part.h"
#include "lab/stored_array.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msda::cli {

// The type with which files hold a tensor, as the options state it.
lab::TypeWish type_wish(Options const& options, lab::TensorRow const& row);

// S, were this the border.
std::int64_t token_count_with(lab::ProblemShape spec, std::int32_t border);

// The places of levels that an input states.
struct LevelEvidence {
  std::optional<std::int64_t> token_count;  // S
  std::optional<std::vector<std::int64_t>> level_start_index;
  std::string label;  // of what the evidence is
};
// Whether the levels follow one another, with a border or without.
bool follow_each_other(lab::ProblemShape const& spec, std::vector<std::int64_t> const& starts);
// Sets the border, 0 or 1, whichever makes everything that is known agree; starts in another order
// or with gaps are taken as they are, without a border unless an option says so. Returns a note, or
// "".
std::string place_levels(lab::ProblemShape& spec, Options const& options,
                         LevelEvidence const& evidence);

// Every size that an option states must be that of the files.
void require_options_agree(lab::ProblemShape const& spec, Options const& options);

// The types after conversion: the options', or else what the arrays have. Converts the arrays.
void settle_types(lab::Case& input, Options const& options);

}  // namespace msda::cli
