#include "lab/tensor_table.h"

namespace msda::lab {
namespace {

using P = ProblemShape;
using T = msda_tensors;

enum Mode : unsigned { kAny = 0, kForward = 1, kBackward = 2, kSampled = 4, kFused = 8 };

constexpr std::array<TensorRow, kTensorIdCount> kRows = {{
    {TensorId::kValue, "value", "BSMD", kAny, &P::value_dtype, &P::value_strides, &T::value},
    {TensorId::kCoord, "coord", "BQMK2", kSampled, &P::coord_dtype, &P::coord_strides, &T::coord},
    {TensorId::kWeight, "weight", "BQMK", kSampled, &P::weight_dtype, &P::weight_strides,
     &T::weight},
    {TensorId::kReference, "reference", "BQLR", kFused, &P::coord_dtype, nullptr, &T::reference},
    {TensorId::kOffset, "offset", "BQMK2", kFused, &P::coord_dtype, &P::coord_strides, &T::offset},
    {TensorId::kLogit, "logit", "BQMK", kFused, &P::weight_dtype, &P::weight_strides, &T::logit},
    {TensorId::kValueScale, "value_scale", "M", kAny, nullptr, nullptr, nullptr},
    {TensorId::kGradOutput, "grad_output", "BQMD", kBackward, &P::output_dtype, &P::output_strides,
     &T::grad_output},
    {TensorId::kOutput, "output", "BQMD", kForward, &P::output_dtype, &P::output_strides, nullptr,
     &T::output},
    {TensorId::kGradValue, "grad_value", "BSMD", kBackward, &P::grad_value_dtype, nullptr, nullptr,
     &T::grad_value},
    {TensorId::kGradCoord, "grad_coord", "BQMK2", kBackward | kSampled, &P::coord_dtype, nullptr,
     nullptr, &T::grad_coord},
    {TensorId::kGradWeight, "grad_weight", "BQMK", kBackward | kSampled, &P::weight_dtype, nullptr,
     nullptr, &T::grad_weight},
    {TensorId::kGradReference, "grad_reference", "BQLR", kBackward | kFused, &P::coord_dtype,
     nullptr, nullptr, &T::grad_reference},
    {TensorId::kGradOffset, "grad_offset", "BQMK2", kBackward | kFused, &P::coord_dtype, nullptr,
     nullptr, &T::grad_offset},
    {TensorId::kGradLogit, "grad_logit", "BQMK", kBackward | kFused, &P::weight_dtype, nullptr,
     nullptr, &T::grad_logit},
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

bool TensorRow::belongs_to(ProblemShape const& shape) const {
  unsigned const mode =
      (shape.backward() ? kBackward : kForward) | (shape.fused() ? kFused : kSampled);
  return (modes & ~mode) == 0;
}

std::array<TensorRow, kTensorIdCount> const& tensor_rows() { return kRows; }

Shape tensor_shape(ProblemShape const& problem, TensorRow const& row) {
  Shape shape;
  for (char const axis : row.axes) shape.push_back(axis_size(problem, axis));
  return shape;
}

msda_dtype tensor_type(ProblemShape const& problem, TensorRow const& row) {
  return row.dtype == nullptr ? MSDA_DTYPE_F32 : problem.*row.dtype;
}

void set_pointer(msda_tensors& tensors, TensorId id, void* pointer) {
  TensorRow const& row = tensor_row(id);
  if (row.input != nullptr) tensors.*row.input = pointer;
  if (row.result != nullptr) tensors.*row.result = pointer;
  if (row.is_optional()) tensors.value_scale = static_cast<const float*>(pointer);
}

}  // namespace msda::lab
