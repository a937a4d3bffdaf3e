// What the two kinds of input share: from stored arrays to typed ones, and sizes that must agree.
#pragma once

#include "cli/options.h"
#include "lab/npy_format.h"
#include "lab/problem_spec.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace msda::cli {

// What the options say of a tensor's elements in a file that does not say it itself.
struct TypeWish {
  msda_dtype stored = MSDA_DTYPE_NONE;  // NONE: nothing
  std::string flag;                     // that says it, for messages
};
TypeWish type_wish(Options const& options, lab::TypeRole role);

// `label` is the file and array for messages.
std::vector<std::int64_t> to_integers(lab::StoredArray const& array, std::string const& label);
lab::Array to_floats(lab::StoredArray array, TypeWish const& wish, std::string const& label);

// (H, W) pairs or point counts as the library takes them.
std::vector<std::int32_t> to_sizes(std::vector<std::int64_t> const& values,
                                   std::string const& label);

// Border 0 or 1, whichever makes everything that is known agree.
struct BorderEvidence {
  std::optional<std::int64_t> token_count;  // S
  std::optional<std::vector<std::int64_t>> level_start_index;
  std::string label;  // of what the evidence is
};
std::int32_t find_border(lab::ProblemSpec const& spec, Options const& options,
                         BorderEvidence const& evidence);

// Every size that an option states must be that of the files.
void require_options_agree(lab::ProblemSpec const& spec, Options const& options);

// The types after conversion: the options', or else what the arrays have. Converts the arrays.
void settle_types(lab::Case& input, Options const& options);

}  // namespace msda::cli
