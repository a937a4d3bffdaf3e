// A problem and its tensors from the files that the options name, and for a file.
//
// .npz, either naming: level_hw, points, value, coord, weight (or reference, offset, logit) and
// grad_output; or value, spatial_shapes, level_start_index, sampling_locations, attention_weights.
// A folder of raw files has the second naming, and its sizes come from the options.
#pragma once

#include "command/commands/options.h"
#include "command/files/array_files.h"
#include "command/problem/case_part.h"

namespace msda::command {

// Whether the options name a file; a workload beside it is refused.
bool has_file(Options const& options);

// Reads, checks every size against every file and every option, and converts to the types asked
// for.
Case load_case(Options const& options);

// The arrays of an .npz that load_case() reads; the bytes of tensors stay `input`'s.
std::vector<FileArray> case_arrays(Case const& input);

// Sets what the options say of the computation: operation, math, sampling, order of sums, and the
// types, NONE where they do not say one.
void set_computation(Options const& options, ProblemShape& spec);

// The type an option asks for, NONE if none does.
msda_dtype wanted_value_type(Options const& options);

}  // namespace msda::command
