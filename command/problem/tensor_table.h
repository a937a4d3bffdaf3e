// The table of tensors for a ProblemShape. Everything of the command and the tests that loads,
// makes, converts, checks or binds tensors walks tensor_rows().
#pragma once

#include "command/files/array.h"
#include "command/problem/problem_shape.h"
#include "core/tensors.h"

#include <array>

namespace msda::command {

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
void set_pointer(msda_tensors& tensors, TensorId id, void* pointer);

}  // namespace msda::command
