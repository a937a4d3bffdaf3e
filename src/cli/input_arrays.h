// What the two kinds of input share: from stored arrays to typed ones, and sizes that must agree.
#pragma once

#include "cli/options.h"
#include "lab/case_part.h"
#include "lab/stored_array.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msda::cli {

// What the options say of the type with which files hold such tensors.
lab::TypeWish type_wish(Options const& options, msda_dtype lab::ProblemShape::* dtype);

// S, were this the border.
std::int64_t token_count_with(lab::ProblemShape spec, std::int32_t border);

// Border 0 or 1, whichever makes everything that is known agree.
struct BorderEvidence {
  std::optional<std::int64_t> token_count;  // S
  std::optional<std::vector<std::int64_t>> level_start_index;
  std::string label;  // of what the evidence is
};
std::int32_t find_border(lab::ProblemShape const& spec, Options const& options,
                         BorderEvidence const& evidence);

// Every size that an option states must be that of the files.
void require_options_agree(lab::ProblemShape const& spec, Options const& options);

// The types after conversion: the options', or else what the arrays have. Converts the arrays.
void settle_types(lab::Case& input, Options const& options);

}  // namespace msda::cli
