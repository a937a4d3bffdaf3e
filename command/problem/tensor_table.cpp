#include "command/problem/tensor_table.h"

#include <cstring>

namespace msda::command {
namespace {

using P = TensorColumns<ProblemShape>;
constexpr std::array<TensorRow, kTensorCount> kRows = {{
#define MSDA_TENSOR(name, id, axes, dtype, strides, modes, role) \
  {tensor_info(Tensor::id), member_or_null(&P::dtype), member_or_null(&P::strides##_strides)},
#include "core/tensors.inc"
#undef MSDA_TENSOR
}};

std::int64_t axis_size(ProblemShape const& problem, char axis) {
  switch (axis) {
    case 'B':
      return problem.batch;
    case 'S':
      return problem.token_count();
    case 'M':
      return problem.head_count;
    case 'D':
      return problem.head_dim;
    case 'Q':
      return problem.query_count;
    case 'L':
      return problem.level_count();
    case 'K':
      return problem.point_total();
    case 'R':
      return problem.reference_dim;
    default:
      return 2;
  }
}

}  // namespace

std::array<TensorRow, kTensorCount> const& tensor_rows() { return kRows; }

Shape tensor_shape(ProblemShape const& problem, TensorRow const& row) {
  Shape shape;
  for (char const axis : row.axes) shape.push_back(axis_size(problem, axis));
  return shape;
}

msda_dtype tensor_type(ProblemShape const& problem, TensorRow const& row) {
  return row.dtype == nullptr ? MSDA_DTYPE_F32 : problem.*row.dtype;
}

void set_pointer(msda_tensors& tensors, TensorId id, void* pointer) {
  auto* const fields = reinterpret_cast<std::byte*>(&tensors);
  std::memcpy(fields + tensor_info(id).field, &pointer, sizeof(pointer));
}

}  // namespace msda::command
