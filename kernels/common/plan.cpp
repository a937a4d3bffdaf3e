#include "kernels/common/plan.h"

#include <algorithm>
#include <cmath>

namespace msda {
namespace {

bool is_packed(Strides const& strides, std::int64_t rows, std::int64_t heads, std::int64_t size) {
  return strides.head == size && strides.row == heads * size &&
         strides.batch == rows * heads * size;
}

LevelParams level_params(Level const& level) {
  return {i32(level.height), i32(level.width),  level.origin,
          level.row_tokens,  level.point_start, level.point_count};
}

StrideParams stride_params(Strides const& strides) {
  return {strides.batch, strides.row, strides.head};
}

bool are_near(Problem const& problem) {
  return problem.levels.size() <= static_cast<std::size_t>(kInlineLevels);
}

}  // namespace

Reason reject_basics(Variant const& variant, Problem const& problem, Device const& device,
                     bool has_features) {
  if (device.is_cpu()) return Reason::kDeviceIsCpu;
  if (!variant.runs_on(device) || !has_features) return Reason::kComputeCapability;
  return problem.value_dtype == variant.value_dtype ? Reason::kNone : Reason::kValueDtype;
}

Reason reject_f64_points(Problem const& problem) {
  if (problem.coord_dtype == MSDA_DTYPE_F64) return Reason::kCoordDtype;
  if (problem.fused() && problem.reference_dtype == MSDA_DTYPE_F64) return Reason::kReferenceDtype;
  return problem.weight_dtype == MSDA_DTYPE_F64 ? Reason::kWeightDtype : Reason::kNone;
}

Reason reject_forward(Variant const& variant, Problem const& problem, Device const& device,
                      bool has_features) {
  Reason const reason = reject_basics(variant, problem, device, has_features);
  if (reason != Reason::kNone) return reason;
  if (problem.backward()) return Reason::kOperation;
  return problem.nearest() ? Reason::kSamplingMode : reject_f64_points(problem);
}

bool sides_fit(Problem const& problem) {
  return std::ranges::all_of(problem.levels, [](Level const& level) {
    return level.height <= kLargestSide && level.width <= kLargestSide;
  });
}

bool rows_are_packed(Problem const& problem) {
  std::int64_t const Q = problem.query_count;
  std::int64_t const M = problem.head_count;
  return is_packed(problem.coord, Q, M, 2 * problem.point_total) &&
         is_packed(problem.weight, Q, M, problem.point_total) &&
         is_packed(problem.output, Q, M, problem.head_dim);
}

bool levels_are_near(Problem const& problem) { return are_near(problem) && sides_fit(problem); }

bool every_level_has(Problem const& problem, std::int64_t points) {
  return std::all_of(problem.levels.begin(), problem.levels.end(),
                     [&](Level const& level) { return level.point_count == points; });
}

bool tokens_fit(Problem const& problem) {
  constexpr std::int64_t kMaxTokens = 1 << 29;
  std::int64_t const bytes = problem.value.row * dtype_bytes(problem.value_dtype);
  if (problem.token_count >= kMaxTokens || bytes > UINT32_MAX) return false;
  return problem.head_count <= INT32_MAX &&
         std::ranges::all_of(problem.levels, [&](Level const& level) {
           return bytes == 0 || level.row_tokens <= UINT32_MAX / bytes;
         });
}

bool head_dim_fits(std::int64_t head_dim, std::int64_t most, std::int64_t multiple) {
  if (head_dim == 0 || head_dim % multiple != 0 || head_dim > most) return false;
  return most == multiple || 2 * head_dim > most;
}

// ---- the work of a problem

double forward_bytes(Problem const& problem) {
  // The pixels of a level that n points touch which fall anywhere on it, if each touched not its
  // four corners but six: lone pixels are pieces of a line, which memory reads at 0.6 of its rate.
  double pixels = 0;
  for (Level const& level : problem.levels) {
    double const all = number(level.height * level.width);
    double const touches = 6 * number(problem.query_count) * number(level.point_count);
    if (all > 0) pixels -= all * std::expm1(-touches / all);
  }
  double const values =
      number(problem.batch) * pixels * number(problem.head_count) * number(problem.head_dim);
  double const point =
      number(2 * dtype_bytes(problem.coord_dtype) + dtype_bytes(problem.weight_dtype));
  return values * number(dtype_bytes(problem.value_dtype)) + points_of(problem) * point +
         rows_of(problem) * number(problem.head_dim * dtype_bytes(problem.output_dtype));
}

Counts counts_of_tensors(Problem const& problem) {
  Counts counts;
  counts.input_bytes =
      points_of(problem) *
          number(2 * dtype_bytes(problem.coord_dtype) + dtype_bytes(problem.weight_dtype)) +
      number(problem.batch) * number(problem.query_count) * number(problem.reference_dim) *
          number(problem.levels.size()) * number(dtype_bytes(problem.reference_dtype));
  counts.output_bytes =
      rows_of(problem) * number(problem.head_dim * dtype_bytes(problem.output_dtype));
  double pixels = 0;  // of a batch item and head
  for (Level const& level : problem.levels) {
    pixels += std::min(number(level.height * level.width),
                       4 * number(problem.query_count) * number(level.point_count));
  }
  counts.value_bytes = pixels * number(problem.batch) * number(problem.head_count) *
                       number(problem.head_dim * dtype_bytes(problem.value_dtype));
  return counts;
}

// ---- what kernels are handed

std::vector<LevelParams> far_levels_of(Problem const& problem) {
  std::vector<LevelParams> levels;
  if (are_near(problem)) return levels;
  for (Level const& level : problem.levels) levels.push_back(level_params(level));
  return levels;
}

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
  params.level_count = i32(problem.levels.size());
  params.far_levels = far_levels;
  if (are_near(problem)) {
    std::transform(problem.levels.begin(), problem.levels.end(), params.near_levels, level_params);
  }
  return params;
}

Params with_buffers(Params params, Call const& call) {
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
  return params;
}

}  // namespace msda
