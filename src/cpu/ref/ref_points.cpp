#include "cpu/ref/ref_points.h"

#include "core/dtype.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace msda::ref {
namespace {

// The result of one operation on the way to the pixel of a nearest point, which is rounded so that
// all kernels find the same pixel.
double rounded(Problem const& problem, double x) {
  return problem.points_are_f64() ? x : static_cast<double>(static_cast<float>(x));
}

// Finiteness is asked of what is read: what comes of it may overflow.
double nan_unless(bool is_finite, double x) {
  return is_finite ? x : std::numeric_limits<double>::quiet_NaN();
}

void read_sampled(Problem const& problem, Call const& call, std::int64_t coord_row,
                  std::int64_t weight_row, Points const& points) {
  for (std::int64_t k = 0; k < problem.point_total; ++k) {
    double const x = load_element(problem.coord_dtype, call[Tensor::kCoord], coord_row + 2 * k);
    double const y = load_element(problem.coord_dtype, call[Tensor::kCoord], coord_row + 2 * k + 1);
    points.x[k] = nan_unless(std::isfinite(x), x);
    points.y[k] = nan_unless(std::isfinite(y), y);
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

// One axis of a level's reference: a point, or the centre of a box and its extent.
struct Reference {
  double centre = 0;
  double extent = 0;
};

// Deformable DETR: reference points plus offsets in pixels, or boxes with offsets in units of their
// size. `size`: of the level in pixels.
double fused_coord(Problem const& problem, Level const& level, std::int64_t size,
                   Reference const& reference, double offset) {
  auto const pixels = static_cast<double>(size);
  double const per_point = 0.5 / static_cast<double>(level.point_count);
  if (!problem.nearest()) {
    return problem.reference_dim == 2 ? reference.centre + offset / pixels
                                      : reference.centre + offset * reference.extent * per_point;
  }
  bool const is_finite = std::isfinite(reference.centre) && std::isfinite(reference.extent) &&
                         std::isfinite(offset) && (problem.reference_dim == 4 || size > 0);
  if (!is_finite) return nan_unless(false, 0);
  double const distance =
      problem.reference_dim == 2
          ? offset / rounded(problem, pixels)
          : offset * rounded(problem, reference.extent * rounded(problem, per_point));
  return rounded(problem, reference.centre + rounded(problem, distance));
}

void read_fused(Problem const& problem, Call const& call, std::int64_t reference_row,
                std::int64_t coord_row, std::int64_t weight_row, Points const& points) {
  read_softmax(problem, call, weight_row, points.weight);
  std::int64_t const R = problem.reference_dim;
  auto const level_count = static_cast<std::int64_t>(problem.levels.size());
  for (std::int64_t l = 0; l < level_count; ++l) {
    Level const& level = problem.levels[static_cast<std::size_t>(l)];
    auto const component = [&](std::int64_t i) {
      return load_element(problem.reference_dtype, call[Tensor::kReference],
                          (reference_row + l) * R + i);
    };
    Reference const x{component(0), R == 4 ? component(2) : 0};
    Reference const y{component(1), R == 4 ? component(3) : 0};
    for (std::int64_t k = level.point_start; k < level.point_start + level.point_count; ++k) {
      double const dx = load_element(problem.coord_dtype, call[Tensor::kOffset], coord_row + 2 * k);
      double const dy =
          load_element(problem.coord_dtype, call[Tensor::kOffset], coord_row + 2 * k + 1);
      points.x[k] = fused_coord(problem, level, level.width, x, dx);
      points.y[k] = fused_coord(problem, level, level.height, y, dy);
    }
  }
}

// The pixel of an axis of `size` that holds a nearest point.
std::int64_t nearest_pixel(Problem const& problem, double coord, std::int64_t size) {
  double const pixels = rounded(problem, static_cast<double>(size));
  double const position = rounded(problem, rounded(problem, coord * pixels) + 0.5);
  if (!(position >= 1)) return 0;
  // The rounded size may be larger.
  return position < pixels ? std::min(static_cast<std::int64_t>(position), size - 1) : size - 1;
}

Corners locate_nearest(Problem const& problem, Level const& level, double x, double y) {
  Corners corners{!std::isnan(x) && !std::isnan(y), false, {-1, -1, -1, -1}, {1}, 0, 0};
  if (!corners.finite || !level.has_pixels()) return corners;
  corners.any_inside = true;
  corners.token[0] = level.origin + nearest_pixel(problem, y, level.height) * level.row_tokens +
                     nearest_pixel(problem, x, level.width);
  return corners;
}

}  // namespace

void read_points(Problem const& problem, Call const& call, std::int64_t b, std::int64_t q,
                 std::int64_t m, Points const& points) {
  std::int64_t const coord_row = problem.coord.at(b, q, m);
  std::int64_t const weight_row = problem.weight.at(b, q, m);
  if (problem.fused()) {
    auto const level_count = static_cast<std::int64_t>(problem.levels.size());
    std::int64_t const reference_row = (b * problem.query_count + q) * level_count;
    read_fused(problem, call, reference_row, coord_row, weight_row, points);
  } else {
    read_sampled(problem, call, coord_row, weight_row, points);
  }
}

Corners locate(Problem const& problem, Level const& level, double x, double y) {
  if (problem.nearest()) return locate_nearest(problem, level, x, y);
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
