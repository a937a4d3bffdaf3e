#include "cpu/ref/ref_points.h"

#include "core/dtype.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace msda::ref {
namespace {

std::int64_t row_offset(Strides const& strides, std::int64_t b, std::int64_t q, std::int64_t m) {
  return b * strides.batch + q * strides.row + m * strides.head;
}

void read_sampled(Problem const& problem, Call const& call, std::int64_t coord_row,
                  std::int64_t weight_row, Points const& points) {
  for (std::int64_t k = 0; k < problem.point_total; ++k) {
    points.x[k] = load_element(problem.coord_dtype, call[Tensor::kCoord], coord_row + 2 * k);
    points.y[k] = load_element(problem.coord_dtype, call[Tensor::kCoord], coord_row + 2 * k + 1);
    points.weight[k] = load_element(problem.weight_dtype, call[Tensor::kWeight], weight_row + k);
  }
}

void read_softmax(Problem const& problem, Call const& call, std::int64_t weight_row,
                  double* weight) {
  std::int64_t const K = problem.point_total;
  double largest = -std::numeric_limits<double>::infinity();
  for (std::int64_t k = 0; k < K; ++k) {
    weight[k] = load_element(problem.weight_dtype, call[Tensor::kLogit], weight_row + k);
    largest = std::max(largest, weight[k]);
  }
  double sum = 0;
  for (std::int64_t k = 0; k < K; ++k) sum += weight[k] = std::exp(weight[k] - largest);
  for (std::int64_t k = 0; k < K; ++k) weight[k] /= sum;
}

// Deformable DETR: reference points plus offsets in pixels, or boxes with offsets in units of their
// size.
void read_fused(Problem const& problem, Call const& call, std::int64_t reference_row,
                std::int64_t coord_row, std::int64_t weight_row, Points const& points) {
  read_softmax(problem, call, weight_row, points.weight);
  auto const level_count = static_cast<std::int64_t>(problem.levels.size());
  for (std::int64_t l = 0; l < level_count; ++l) {
    Level const& level = problem.levels[static_cast<std::size_t>(l)];
    double reference[4] = {};
    for (std::int64_t i = 0; i < problem.reference_dim; ++i) {
      reference[i] = load_element(problem.coord_dtype, call[Tensor::kReference],
                                  (reference_row + l) * problem.reference_dim + i);
    }
    for (std::int64_t k = level.point_start; k < level.point_start + level.point_count; ++k) {
      double const dx = load_element(problem.coord_dtype, call[Tensor::kOffset], coord_row + 2 * k);
      double const dy =
          load_element(problem.coord_dtype, call[Tensor::kOffset], coord_row + 2 * k + 1);
      if (problem.reference_dim == 2) {
        points.x[k] = reference[0] + dx / static_cast<double>(level.width);
        points.y[k] = reference[1] + dy / static_cast<double>(level.height);
      } else {
        double const per_point = 0.5 / static_cast<double>(level.point_count);
        points.x[k] = reference[0] + dx * reference[2] * per_point;
        points.y[k] = reference[1] + dy * reference[3] * per_point;
      }
    }
  }
}

}  // namespace

void read_points(Problem const& problem, Call const& call, std::int64_t b, std::int64_t q,
                 std::int64_t m, Points const& points) {
  std::int64_t const coord_row = row_offset(problem.coord, b, q, m);
  std::int64_t const weight_row = row_offset(problem.weight, b, q, m);
  if (problem.fused()) {
    auto const level_count = static_cast<std::int64_t>(problem.levels.size());
    std::int64_t const reference_row = (b * problem.query_count + q) * level_count;
    read_fused(problem, call, reference_row, coord_row, weight_row, points);
  } else {
    read_sampled(problem, call, coord_row, weight_row, points);
  }
}

Corners locate(Level const& level, double x, double y) {
  Corners corners{std::isfinite(x) && std::isfinite(y), false, {-1, -1, -1, -1}, {}, 0, 0};
  if (!corners.finite) return corners;
  double const px = x * static_cast<double>(level.width) - 0.5;
  double const py = y * static_cast<double>(level.height) - 0.5;
  // Beyond these no corner is inside, and the floor may not fit an integer.
  if (!(px >= -1 && px < static_cast<double>(level.width))) return corners;
  if (!(py >= -1 && py < static_cast<double>(level.height))) return corners;
  auto const x0 = static_cast<std::int64_t>(std::floor(px));
  auto const y0 = static_cast<std::int64_t>(std::floor(py));
  corners.fx = px - static_cast<double>(x0);
  corners.fy = py - static_cast<double>(y0);
  for (int i = 0; i < 4; ++i) {
    std::int64_t const cx = x0 + i % 2;
    std::int64_t const cy = y0 + i / 2;
    double const wx = i % 2 == 1 ? corners.fx : 1 - corners.fx;
    double const wy = i / 2 == 1 ? corners.fy : 1 - corners.fy;
    corners.weight[i] = wx * wy;
    if (cx < 0 || cx >= level.width || cy < 0 || cy >= level.height) continue;
    corners.token[i] = level.origin + cy * level.row_tokens + cx;
    corners.any_inside = true;
  }
  return corners;
}

}  // namespace msda::ref
