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

}  // namespace

std::array<TensorRow, kTensorCount> const& tensor_rows() { return kRows; }

Shape tensor_shape(ProblemShape const& problem, TensorRow const& row) {
  constexpr std::string_view kAxes = "BSQMDLKR2";
  std::array<std::int64_t, kAxes.size()> const sizes = {
      problem.batch,         problem.token_count(), problem.query_count,
      problem.head_count,    problem.head_dim,      problem.level_count(),
      problem.point_total(), problem.reference_dim, 2};
  Shape shape;
  for (char const axis : row.axes) shape.push_back(sizes.at(kAxes.find(axis)));
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
