// A problem that owns its arrays, and the one table of the tensors that belong to it.
#pragma once

#include "lab/array.h"

#include <msda.h>

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace msda::lab {

struct ProblemSpec {
  std::vector<std::int32_t> level_hw;      // [L][2]
  std::vector<std::int32_t> point_counts;  // [L]
  std::vector<std::int32_t> query_hw;      // [grids][2], or empty
  std::int64_t batch = 0;
  std::int64_t query_count = 0;
  std::int64_t head_count = 0;
  std::int64_t head_dim = 0;
  std::int32_t value_border = 0;
  std::int32_t reference_dim = 0;  // 0: sampled; 2 or 4: fused
  msda_operation operation = MSDA_FORWARD;
  msda_math_mode math_mode = MSDA_MATH_ACCURATE;
  msda_dtype value_dtype = MSDA_DTYPE_NONE;
  msda_dtype coord_dtype = MSDA_DTYPE_NONE;
  msda_dtype weight_dtype = MSDA_DTYPE_NONE;
  msda_dtype output_dtype = MSDA_DTYPE_NONE;
  msda_dtype grad_value_dtype = MSDA_DTYPE_NONE;

  bool fused() const { return reference_dim != 0; }
  bool backward() const { return operation == MSDA_BACKWARD; }
  std::int64_t level_count() const { return static_cast<std::int64_t>(point_counts.size()); }
  std::int64_t token_count() const { return token_count(value_border); }  // S
  std::int64_t token_count(std::int32_t border) const;
  std::int64_t point_total() const;  // K

  // Dtypes left open get the library's defaults, so that arrays can be made and converted.
  void resolve_dtypes();
  // Points into this spec.
  msda_problem to_c() const;
};

enum class TypeRole { kValue, kCoord, kWeight, kOutput, kGradValue, kFloat };
enum class Use { kInput, kOptionalInput, kResult };

// One tensor of msda_tensors. Everything that loads, makes, converts, checks or binds tensors walks
// tensor_table().
struct TensorRow {
  std::string_view name;
  std::string_view axes;  // letters of msda.h; R is reference_dim, 2 is 2
  TypeRole type;
  Use use;
  bool in_forward;
  bool in_backward;
  bool in_sampled;
  bool in_fused;
  const void* msda_tensors::* input;  // null for results
  void* msda_tensors::* result;       // null for inputs

  bool belongs_to(ProblemSpec const& spec) const;
};
std::span<const TensorRow> tensor_table();

Shape tensor_shape(ProblemSpec const& spec, TensorRow const& row);
msda_dtype tensor_type(ProblemSpec const& spec, TensorRow const& row);

// A problem with its arrays by tensor name.
struct Case {
  ProblemSpec spec;
  std::map<std::string, Array, std::less<>> arrays;
  std::vector<std::string> remarks;  // what the user should know, once nothing is wrong

  Array const* find(std::string_view name) const;
};

}  // namespace msda::lab
