#include "cpu/simd/simd_cost.h"

#include "core/dtype.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace msda::simd {
namespace {

double convert_ns(Costs const& costs, msda_dtype dtype) {
  if (dtype == MSDA_DTYPE_F16) return costs.convert_f16_ns;
  return dtype_bytes(dtype) == 1 ? costs.convert_f8_ns : 0.0;
}

double line_ns(Costs const& costs, double value_bytes, bool local) {
  double const clamped = std::clamp(value_bytes, costs.near_bytes, costs.far_bytes);
  double const share =
      std::log(clamped / costs.near_bytes) / std::log(costs.far_bytes / costs.near_bytes);
  return costs.near_line_ns +
         share * (costs.far_line_ns - costs.near_line_ns) * (local ? costs.local_share : 1.0);
}

double number(std::int64_t n) { return static_cast<double>(n); }

double vectors_of(Problem const& problem) { return std::ceil(number(problem.head_dim) / 16.0); }

double forward_row_ns(Costs const& costs, Problem const& problem) {
  double const row_bytes = number(problem.head_dim * dtype_bytes(problem.value_dtype));
  double const value_bytes = number(problem.token_count) * number(problem.head_count) * row_bytes;
  double const lines = std::ceil(row_bytes / 64.0);
  bool const local = !problem.query_grids.empty();
  double const corner_ns =
      vectors_of(problem) * (costs.vector_ns + convert_ns(costs, problem.value_dtype)) +
      lines * line_ns(costs, value_bytes, local);
  return costs.row_ns + (problem.fused() ? costs.fused_row_ns : 0.0) +
         number(problem.point_total) * (costs.point_ns + 4.0 * corner_ns);
}

double backward_row_ns(Costs const& costs, Problem const& problem) {
  double const point_ns = costs.backward_point_ns + vectors_of(problem) * costs.backward_vector_ns +
                          (problem.fused() ? costs.backward_fused_ns : 0.0);
  return costs.row_ns + number(problem.point_total) * point_ns;
}

double backward_value_us(Costs const& costs, Problem const& problem) {
  double const values = number(problem.batch) * number(problem.token_count) *
                        number(problem.head_count) * 16.0 * vectors_of(problem);
  return values * costs.backward_value_ns * 1e-3;
}

}  // namespace

double predicted_us(Costs const& costs, Variant const&, Problem const& problem,
                    Device const& device) {
  double const rows =
      number(problem.batch) * number(problem.query_count) * number(problem.head_count);
  double const row_ns =
      problem.backward() ? backward_row_ns(costs, problem) : forward_row_ns(costs, problem);
  double const value_us = problem.backward() ? backward_value_us(costs, problem) : 0.0;
  double const threads = std::min(number(device.thread_count), std::max(rows / 64.0, 1.0));
  return costs.call_us + (threads > 1 ? costs.wake_us : 0.0) +
         (rows * row_ns * 1e-3 + value_us) / threads;
}

}  // namespace msda::simd
