#include "kernels/common/row_limits.h"

#include "core/dtype.h"
#include "kernels/common/params.h"

#include <algorithm>

namespace msda {
namespace {

bool is_packed(Strides const& strides, std::int64_t rows, std::int64_t heads, std::int64_t size) {
  return strides.head == size && strides.row == heads * size &&
         strides.batch == rows * heads * size;
}

}  // namespace

Reason reject_basics(Variant const& variant, Problem const& problem, Device const& device) {
  if (device.is_cpu()) return Reason::kDeviceIsCpu;
  if (!variant.runs_on(device)) return Reason::kComputeCapability;
  return problem.value_dtype == variant.value_dtype ? Reason::kNone : Reason::kValueDtype;
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

bool levels_are_near(Problem const& problem) {
  return problem.levels.size() <= static_cast<std::size_t>(kInlineLevels) && sides_fit(problem);
}

bool every_level_has(Problem const& problem, std::int64_t points) {
  return std::all_of(problem.levels.begin(), problem.levels.end(),
                     [&](Level const& level) { return level.point_count == points; });
}

bool head_dim_fits(std::int64_t head_dim, std::int64_t most, std::int64_t multiple) {
  if (head_dim == 0 || head_dim % multiple != 0 || head_dim > most) return false;
  return most == multiple || 2 * head_dim > most;
}

bool strides_are_multiples(Strides const& strides, msda_dtype dtype, std::int64_t alignment) {
  return (strides.batch | strides.row | strides.head) * dtype_bytes(dtype) % alignment == 0;
}

bool row_stride_fits(Strides const& strides, msda_dtype dtype) {
  return strides.row >= 0 && strides.row * dtype_bytes(dtype) <= INT32_MAX;
}

bool value_strides_are_multiples(Problem const& problem, std::int64_t alignment) {
  return strides_are_multiples(problem.value, problem.value_dtype, alignment);
}

}  // namespace msda
