// The planning that all families with gradients of points share.
#pragma once

#include "kernels/common/plan.h"
#include "kernels/points/points.h"

namespace msda::points {

// The reasons that do not depend on sizes. takes_overlap: tokens may be pixels of several levels.
inline Reason reject(Variant const& variant, Problem const& problem, Device const& device,
                     bool takes_overlap) {
  if (Reason const reason = reject_basics(variant, problem, device); reason != Reason::kNone) {
    return reason;
  }
  if (!problem.backward()) return Reason::kOperation;
  if (problem.nearest()) return Reason::kSamplingMode;
  if (problem.levels_overlap && !takes_overlap) return Reason::kOverlap;
  if (Reason const reason = reject_f64_points(problem); reason != Reason::kNone) return reason;
  if (device.sm_count_limit != 0) return Reason::kSmLimit;
  std::int64_t const D = problem.head_dim;
  if (D == 0 || D > kMaxHeadDim || D % kChannelsOfLane != 0) return Reason::kHeadDim;
  return sides_fit(problem) ? Reason::kNone : Reason::kLevels;
}

// Tokens, heads and queries are counted in 32 bits, and so are the points of a head.
inline bool counts_fit(Problem const& problem) {
  return problem.token_count <= INT32_MAX && problem.query_count <= INT32_MAX &&
         number(problem.query_count) * number(problem.point_total) <= INT32_MAX &&
         problem.batch * problem.head_count < INT32_MAX &&
         problem.batch * problem.query_count < INT32_MAX;
}

// A factor on the work of rows that are loaded element by element, since grad_output and the values
// have two types; 1 for others.
inline double element_factor(Problem const& problem, double factor) {
  return problem.output_dtype != problem.value_dtype ? factor : 1.0;
}

// x and y of every point lie side by side at a multiple of their bytes.
inline bool are_pairs(const void* array, StrideParams const& strides, msda_dtype dtype) {
  return (strides.batch | strides.row | strides.head) % 2 == 0 &&
         is_aligned(array, 2 * dtype_bytes(dtype));
}

// Whether gradients of points may differ from 0: without tokens those of logits do whose softmax is
// NaN.
inline bool has_gradients(Problem const& problem) {
  return problem.has_points() && (problem.token_count > 0 || problem.fused());
}

// The heads of which a warp takes rows side by side.
constexpr std::int64_t heads_together(std::int64_t head_count) {
  return head_count % 2 == 0 ? 2 : 1;
}

// Some tokens are pixels of no level, so they are not among what tiles write.
inline bool has_other_tokens(Problem const& problem) {
  std::int64_t pixels = 0;
  for (Level const& level : problem.levels) pixels += level.height * level.width;
  return pixels != problem.token_count;
}

// Whether 32 bits number the elements of the gradients of points.
inline bool gradients_are_near(Problem const& problem) {
  if (!problem.has_points()) return false;
  auto const end = [&](Strides const& strides, std::int64_t elements) {
    return strides.at(problem.batch - 1, problem.query_count - 1, problem.head_count - 1) +
           elements;
  };
  return end(problem.grad_coord, 2 * problem.point_total) <= std::int64_t{UINT32_MAX} &&
         end(problem.grad_weight, problem.point_total) <= std::int64_t{UINT32_MAX};
}

inline PointLevel point_level(Problem const& problem, std::size_t index) {
  Level const& level = problem.levels[index];
  PointLevel of_point{};
  of_point.index = i32(index);
  of_point.box_scale = 0.5f / static_cast<float>(level.point_count);
  if (!level.has_pixels()) return of_point;
  of_point.width = i32(level.width);
  of_point.height = i32(level.height);
  of_point.origin = i32(level.origin);
  of_point.row_tokens = level.height == 1 ? 0 : i32(level.row_tokens);
  return of_point;
}

inline std::vector<PointLevel> point_levels(Problem const& problem) {  // [K]
  std::vector<PointLevel> points;
  if (!problem.has_points()) return points;  // of no query or head: the table would be too large
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    if (problem.levels[l].point_count == 0) continue;
    points.insert(points.end(), static_cast<std::size_t>(problem.levels[l].point_count),
                  point_level(problem, l));
  }
  return points;
}

}  // namespace msda::points
