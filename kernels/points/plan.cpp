#include "kernels/points/plan.h"

#include "kernels/common/plan.h"

namespace msda::points {
namespace {

// A vector of one element a point, its level's; none where the problem has no points.
template <typename OfLevel>
auto of_points(Problem const& problem, OfLevel of_level) {
  std::vector<decltype(of_level(std::size_t{0}))> points;
  if (!problem.has_points()) return points;
  for (std::size_t l = 0; l < problem.levels.size(); ++l) {
    points.insert(points.end(), static_cast<std::size_t>(problem.levels[l].point_count),
                  of_level(l));
  }
  return points;
}

PointLevel point_level(Level const& level) {
  if (!level.has_pixels()) return {};
  return {static_cast<std::int32_t>(level.width), static_cast<std::int32_t>(level.height),
          static_cast<std::int32_t>(level.origin),
          level.height == 1 ? 0 : static_cast<std::int32_t>(level.row_tokens)};
}

}  // namespace

Reason reject(Variant const& variant, Problem const& problem, Device const& device,
              bool takes_overlap) {
  if (Reason const reason = reject_basics(variant, problem, device); reason != Reason::kNone) {
    return reason;
  }
  if (!problem.backward()) return Reason::kOperation;
  if (problem.levels_overlap && !takes_overlap) return Reason::kOverlap;
  if (Reason const reason = reject_f64_points(problem); reason != Reason::kNone) return reason;
  if (device.sm_count_limit != 0) return Reason::kSmLimit;
  std::int64_t const D = problem.head_dim;
  if (D == 0 || D > kMaxHeadDim || D % kChannelsOfLane != 0) return Reason::kHeadDim;
  if (!point_gradients_are_packed(problem)) return Reason::kStrides;
  return sides_fit(problem) ? Reason::kNone : Reason::kLevels;
}

std::vector<std::int32_t> level_of_points(Problem const& problem) {
  return of_points(problem, [](std::size_t l) { return static_cast<std::int32_t>(l); });
}

std::vector<PointLevel> point_levels(Problem const& problem) {
  return of_points(problem, [&](std::size_t l) { return point_level(problem.levels[l]); });
}

}  // namespace msda::points
