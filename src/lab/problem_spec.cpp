#include "lab/problem_spec.h"

#include "lab/input_error.h"

#include <msda.hpp>

#include <numeric>

namespace msda::lab {
namespace {

// value_scale is `const float*` in msda_tensors, the only input that is not `const void*`.
constexpr std::array<TensorRow, 15> kTensors = {{
    // name, axes, type, use, forward, backward, sampled, fused, member
    {"value", "BSMD", TypeRole::kValue, Use::kInput, true, true, true, true, &msda_tensors::value,
     nullptr},
    {"coord", "BQMK2", TypeRole::kCoord, Use::kInput, true, true, true, false, &msda_tensors::coord,
     nullptr},
    {"weight", "BQMK", TypeRole::kWeight, Use::kInput, true, true, true, false,
     &msda_tensors::weight, nullptr},
    {"reference", "BQLR", TypeRole::kCoord, Use::kInput, true, true, false, true,
     &msda_tensors::reference, nullptr},
    {"offset", "BQMK2", TypeRole::kCoord, Use::kInput, true, true, false, true,
     &msda_tensors::offset, nullptr},
    {"logit", "BQMK", TypeRole::kWeight, Use::kInput, true, true, false, true, &msda_tensors::logit,
     nullptr},
    {"value_scale", "M", TypeRole::kFloat, Use::kOptionalInput, true, true, true, true, nullptr,
     nullptr},
    {"grad_output", "BQMD", TypeRole::kOutput, Use::kInput, false, true, true, true,
     &msda_tensors::grad_output, nullptr},
    {"output", "BQMD", TypeRole::kOutput, Use::kResult, true, false, true, true, nullptr,
     &msda_tensors::output},
    {"grad_value", "BSMD", TypeRole::kGradValue, Use::kResult, false, true, true, true, nullptr,
     &msda_tensors::grad_value},
    {"grad_coord", "BQMK2", TypeRole::kCoord, Use::kResult, false, true, true, false, nullptr,
     &msda_tensors::grad_coord},
    {"grad_weight", "BQMK", TypeRole::kWeight, Use::kResult, false, true, true, false, nullptr,
     &msda_tensors::grad_weight},
    {"grad_reference", "BQLR", TypeRole::kCoord, Use::kResult, false, true, false, true, nullptr,
     &msda_tensors::grad_reference},
    {"grad_offset", "BQMK2", TypeRole::kCoord, Use::kResult, false, true, false, true, nullptr,
     &msda_tensors::grad_offset},
    {"grad_logit", "BQMK", TypeRole::kWeight, Use::kResult, false, true, false, true, nullptr,
     &msda_tensors::grad_logit},
}};

std::int64_t axis_size(ProblemSpec const& spec, char axis) {
  switch (axis) {
    case 'B':
      return spec.batch;
    case 'S':
      return spec.token_count();
    case 'M':
      return spec.head_count;
    case 'D':
      return spec.head_dim;
    case 'Q':
      return spec.query_count;
    case 'L':
      return spec.level_count();
    case 'K':
      return spec.point_total();
    case 'R':
      return spec.reference_dim;
    default:
      return 2;
  }
}

}  // namespace

std::int64_t ProblemSpec::token_count(std::int32_t border) const {
  std::int64_t tokens = 0;
  for (std::size_t l = 0; l < point_counts.size(); ++l) {
    std::int64_t const height = level_hw[2 * l] + std::int64_t{2} * border;
    std::int64_t const width = level_hw[2 * l + 1] + std::int64_t{2} * border;
    if (__builtin_add_overflow(tokens, height * width, &tokens)) {
      bad_input("the levels have more than 2^63 tokens");
    }
  }
  return tokens;
}

std::int64_t ProblemSpec::point_total() const {
  return std::accumulate(point_counts.begin(), point_counts.end(), std::int64_t{0});
}

void ProblemSpec::resolve_dtypes() {
  auto const resolve = [](msda_dtype& type, msda_dtype otherwise) {
    if (type == MSDA_DTYPE_NONE) type = otherwise;
  };
  msda_dtype const like_value = value_dtype == MSDA_F8_E4M3 ? MSDA_F32 : value_dtype;
  msda_dtype const sampling = value_dtype == MSDA_F64 ? MSDA_F64 : MSDA_F32;
  resolve(coord_dtype, sampling);
  resolve(weight_dtype, sampling);
  resolve(output_dtype, like_value);
  resolve(grad_value_dtype, like_value);
}

msda_problem ProblemSpec::to_c() const {
  auto problem = make<msda_problem>();
  problem.level_hw = level_hw.data();
  problem.point_counts = point_counts.data();
  problem.query_hw = query_hw.empty() ? nullptr : query_hw.data();
  problem.query_grid_count = static_cast<std::int32_t>(query_hw.size() / 2);
  problem.batch = batch;
  problem.query_count = query_count;
  problem.head_count = head_count;
  problem.head_dim = head_dim;
  problem.level_count = static_cast<std::int32_t>(point_counts.size());
  problem.value_border = value_border;
  problem.reference_dim = reference_dim;
  problem.operation = operation;
  problem.input_mode = fused() ? MSDA_INPUT_FUSED : MSDA_INPUT_SAMPLED;
  problem.math_mode = math_mode;
  problem.value_dtype = value_dtype;
  problem.coord_dtype = coord_dtype;
  problem.weight_dtype = weight_dtype;
  problem.output_dtype = output_dtype;
  problem.grad_value_dtype = grad_value_dtype;
  return problem;
}

bool TensorRow::belongs_to(ProblemSpec const& spec) const {
  return (spec.backward() ? in_backward : in_forward) && (spec.fused() ? in_fused : in_sampled);
}

std::span<const TensorRow> tensor_table() { return kTensors; }

Shape tensor_shape(ProblemSpec const& spec, TensorRow const& row) {
  Shape shape;
  for (char const axis : row.axes) shape.push_back(axis_size(spec, axis));
  return shape;
}

msda_dtype tensor_type(ProblemSpec const& spec, TensorRow const& row) {
  switch (row.type) {
    case TypeRole::kValue:
      return spec.value_dtype;
    case TypeRole::kCoord:
      return spec.coord_dtype;
    case TypeRole::kWeight:
      return spec.weight_dtype;
    case TypeRole::kOutput:
      return spec.output_dtype;
    case TypeRole::kGradValue:
      return spec.grad_value_dtype;
    case TypeRole::kFloat:
      return MSDA_F32;
  }
  return MSDA_DTYPE_NONE;
}

Array const* Case::find(std::string_view name) const {
  auto const found = arrays.find(name);
  return found == arrays.end() ? nullptr : &found->second;
}

}  // namespace msda::lab
