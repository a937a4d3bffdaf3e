#include "kernels/common/make_params.h"

#include <algorithm>
#include <vector>

namespace msda {
namespace {

LevelParams level_params(Level const& level) {
  return {static_cast<std::int32_t>(level.height),
          static_cast<std::int32_t>(level.width),
          level.origin,
          level.row_tokens,
          level.point_start,
          level.point_count};
}

StrideParams stride_params(Strides const& strides) {
  return {strides.batch, strides.row, strides.head};
}

bool are_near(Problem const& problem) {
  return problem.levels.size() <= static_cast<std::size_t>(kInlineLevels);
}

std::vector<LevelParams> all_unless_near(Problem const& problem) {
  std::vector<LevelParams> levels;
  if (are_near(problem)) return levels;
  for (Level const& level : problem.levels) levels.push_back(level_params(level));
  return levels;
}

}  // namespace

FarLevels::FarLevels(Problem const& problem, Device const& device)
    : levels_(all_unless_near(problem), device) {}

Params make_params(Problem const& problem, const LevelParams* far_levels) {
  Params params{};
  params.batch = problem.batch;
  params.token_count = problem.token_count;
  params.query_count = problem.query_count;
  params.head_count = problem.head_count;
  params.head_dim = problem.head_dim;
  params.point_total = problem.point_total;
  params.value_strides = stride_params(problem.value);
  params.coord_strides = stride_params(problem.coord);
  params.weight_strides = stride_params(problem.weight);
  params.output_strides = stride_params(problem.output);
  params.grad_coord_strides = stride_params(problem.grad_coord);
  params.grad_weight_strides = stride_params(problem.grad_weight);
  params.coord_dtype = problem.coord_dtype;
  params.reference_dtype = problem.reference_dtype;
  params.weight_dtype = problem.weight_dtype;
  params.output_dtype = problem.output_dtype;
  params.grad_value_dtype = problem.grad_value_dtype;
  params.reference_dim = problem.reference_dim;
  params.level_count = static_cast<std::int32_t>(problem.levels.size());
  params.far_levels = far_levels;
  if (are_near(problem)) {
    std::transform(problem.levels.begin(), problem.levels.end(), params.near_levels, level_params);
  }
  return params;
}

void set_buffers(Params& params, Call const& call) {
  bool const fused = params.reference_dim != 0;
  params.value = call[Tensor::kValue];
  params.coord = call[fused ? Tensor::kOffset : Tensor::kCoord];
  params.weight = call[fused ? Tensor::kLogit : Tensor::kWeight];
  params.reference = call[Tensor::kReference];
  params.value_scale = static_cast<const float*>(call[Tensor::kValueScale]);
  params.output = call[Tensor::kOutput];
  params.grad_output = call[Tensor::kGradOutput];
  params.attention = call[Tensor::kAttention];
  params.grad_value = call[Tensor::kGradValue];
  params.grad_coord = call[fused ? Tensor::kGradOffset : Tensor::kGradCoord];
  params.grad_weight = call[fused ? Tensor::kGradLogit : Tensor::kGradWeight];
  params.grad_reference = call[Tensor::kGradReference];
}

}  // namespace msda
