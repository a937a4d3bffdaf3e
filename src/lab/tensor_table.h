// The one table of the tensors that belong to a problem. Everything that loads, makes, converts,
// checks or binds tensors walks tensor_rows().
#pragma once

#include "lab/array.h"
#include "lab/problem_shape.h"

#include <array>
#include <string_view>

namespace msda::lab {

enum class TensorId {
  kValue,
  kCoord,
  kWeight,
  kReference,
  kOffset,
  kLogit,
  kValueScale,
  kGradOutput,
  kOutput,
  kGradValue,
  kGradCoord,
  kGradWeight,
  kGradReference,
  kGradOffset,
  kGradLogit,
};
inline constexpr std::size_t kTensorIdCount = 15;

struct TensorRow {
  TensorId id;
  std::string_view name;              // of the member of msda_tensors
  std::string_view axes;              // letters of msda.h; R is reference_dim, 2 is 2
  unsigned modes;                     // that all have to hold for the tensor to belong to a problem
  msda_dtype ProblemShape::* dtype;   // null: float32
  Strides3 ProblemShape::* strides;   // null: packed
  const void* msda_tensors::* input;  // null for results, and for value_scale, a `const float*`
  void* msda_tensors::* result = nullptr;  // null for inputs

  bool is_result() const { return result != nullptr; }
  bool is_optional() const { return id == TensorId::kValueScale; }
  bool belongs_to(ProblemShape const& shape) const;
};
std::array<TensorRow, kTensorIdCount> const& tensor_rows();
inline TensorRow const& tensor_row(TensorId id) {
  return tensor_rows()[static_cast<std::size_t>(id)];
}

Shape tensor_shape(ProblemShape const& problem, TensorRow const& row);
msda_dtype tensor_type(ProblemShape const& problem, TensorRow const& row);
void set_pointer(msda_tensors& tensors, TensorId id, void* pointer);

}  // namespace msda::lab
