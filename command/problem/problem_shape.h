// The shape of a problem, everything in msda_problem, and its tensors.
#pragma once

#include "command/files/array.h"
#include "core/problem_copy.h"
#include "core/tensors.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace msda::command {

struct LevelShape {
  std::int32_t height = 0;
  std::int32_t width = 0;
  std::int32_t points = 0;
};
// From [L][2] = (H, W), and point counts: one number, or one for each level.
std::vector<LevelShape> make_levels(std::vector<std::int32_t> const& level_hw,
                                    std::vector<std::int32_t> const& points);

// "12x14,6x7"
std::string pairs_text(std::vector<std::int32_t> const& numbers);

using Strides3 = std::array<std::int64_t, 3>;  // 0 0 0: packed

struct ProblemShape {
  std::vector<LevelShape> levels;
#define MSDA_SIZE(name) std::int64_t name = 1;
#define MSDA_STRIDES(name, tensors) Strides3 name = {0, 0, 0};
#define MSDA_CHOICE(name, type, ...) type name = 0;
#define MSDA_DTYPE(name, otherwise) msda_dtype name = MSDA_DTYPE_F32;
#include "core/problem_fields.inc"
  std::int32_t reference_dim = 0;         // 0: sampled; 2, 4: fused
  std::vector<std::int32_t> query_hw;     // [grids][2], or empty
  std::vector<std::int64_t> level_start;  // [L], or empty: one after another
  std::int64_t tokens = 0;                // S, or 0: where the last level ends

  bool fused() const { return reference_dim != 0; }
  bool backward() const { return operation == MSDA_BACKWARD; }
  bool nearest() const { return sampling_mode == MSDA_SAMPLING_NEAREST; }
  std::int64_t level_count() const { return static_cast<std::int64_t>(levels.size()); }  // L
  std::int64_t level_tokens(LevelShape const& level) const;
  std::vector<std::int64_t> level_starts() const;  // [L]: level_start, or what stands for it
  std::int64_t token_count() const;                // S
  std::int64_t point_total() const;                // K
  std::vector<std::int32_t> level_hw() const;      // [L][2]
  std::vector<std::int32_t> point_counts() const;  // [L]

  // Dtypes that are MSDA_DTYPE_NONE become what the library takes for them.
  void resolve_dtypes();
  // value_dtype, and for the others what the library takes when they are left open.
  void set_dtypes(msda_dtype value);
  ProblemCopy copy() const;  // as the library takes it
  // One line of key=value words, as the msda command and tests/cases/*.txt write a problem.
  std::string describe() const;
};

// ---- the table of tensors

// Everything of the command and the tests that loads, makes, converts, checks or binds tensors
// walks tensor_rows().

using TensorId = Tensor;

// A row of core/tensors.inc, and where a ProblemShape has what it says.
struct TensorRow : TensorInfo {
  msda_dtype ProblemShape::* dtype;  // null: float32
  Strides3 ProblemShape::* strides;  // null: packed

  bool is_input() const { return !TensorInfo::is_result(); }
  // An extra result is none of those that a call computes where nobody asks for it.
  bool is_result() const { return TensorInfo::is_result() && !is_extra(); }
  bool is_optional() const { return role == TensorRole::kOptionalInput || is_extra(); }
  bool belongs_to(ProblemShape const& shape) const {
    return TensorInfo::belongs_to(shape.backward(), shape.fused());
  }
};
std::array<TensorRow, kTensorCount> const& tensor_rows();
inline TensorRow const& tensor_row(TensorId id) {
  return tensor_rows()[static_cast<std::size_t>(id)];
}

Shape tensor_shape(ProblemShape const& problem, TensorRow const& row);
msda_dtype tensor_type(ProblemShape const& problem, TensorRow const& row);
std::size_t tensor_bytes(ProblemShape const& problem, TensorRow const& row);
void set_pointer(msda_tensors& tensors, TensorId id, void* pointer);

}  // namespace msda::command
