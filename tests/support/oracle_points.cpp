#include "support/oracle_points.h"

#include <algorithm>
#include <limits>

namespace msda::test::oracle {

Index token_of(ProblemShape const& shape, Point const& p, double cx, double cy) {
  LevelShape const& level = shape.levels[at(p.level)];
  bool const inside = cx >= 0 && cx <= level.width - 1.0 && cy >= 0 && cy <= level.height - 1.0;
  if (!inside) return -1;
  Index const border = shape.value_border;
  return p.level_start + (static_cast<Index>(cy) + border) * (level.width + 2 * border) +
         static_cast<Index>(cx) + border;
}

namespace {

bool points_are_f64(ProblemShape const& shape) {
  return shape.coord_dtype == MSDA_DTYPE_F64 ||
         (shape.fused() && shape.reference_dtype == MSDA_DTYPE_F64);
}

// The whole number of pixels along an axis of a point of nearest sampling, in the arithmetic of its
// coordinate.
template <typename Real>
double nearest_pixel(double coord, std::int32_t size) {
  Real const product = static_cast<Real>(coord) * static_cast<Real>(size);
  Real const position = product + static_cast<Real>(0.5);
  return std::clamp(std::trunc(static_cast<double>(position)), 0.0, size - 1.0);
}

void place_nearest(ProblemShape const& shape, Point& p) {
  LevelShape const& level = shape.levels[at(p.level)];
  p.finite = std::isfinite(p.x) && std::isfinite(p.y);
  p.touches = p.finite && level.width > 0 && level.height > 0;
  std::fill_n(p.token, 4, Index{-1});
  std::fill_n(p.share, 4, 0.0);
  p.fx = p.fy = 0;
  if (!p.touches) return;
  auto const pixel = points_are_f64(shape) ? nearest_pixel<double> : nearest_pixel<float>;
  p.px = pixel(p.x, level.width);
  p.py = pixel(p.y, level.height);
  p.token[0] = token_of(shape, p, p.px, p.py);
  p.share[0] = 1;
}

// The coordinate of a fused point of nearest sampling: NaN where one of its numbers is none, the
// largest number where the sum is beyond it.
template <typename Real>
double nearest_coord(double reference, double extent, double offset, std::int64_t divisor,
                     bool is_box) {
  bool const all_finite =
      std::isfinite(reference) && std::isfinite(extent) && std::isfinite(offset) && divisor != 0;
  if (!all_finite) return std::numeric_limits<double>::quiet_NaN();
  auto const by = static_cast<Real>(divisor);
  Real const unit = static_cast<Real>(0.5) / by;
  Real const step = static_cast<Real>(extent) * unit;
  Real const boxed = static_cast<Real>(offset) * step;
  Real const divided = static_cast<Real>(offset) / by;
  Real const sum = static_cast<Real>(reference) + (is_box ? boxed : divided);
  Real const most = std::numeric_limits<Real>::max();
  return static_cast<double>(std::clamp(sum, -most, most));
}

}  // namespace

void place(ProblemShape const& shape, Point& p, Move x, Move y) {
  if (shape.nearest()) return place_nearest(shape, p);
  LevelShape const& level = shape.levels[at(p.level)];
  p.finite = std::isfinite(p.x) && std::isfinite(p.y);
  p.touches = false;
  p.px = p.x * level.width - 0.5;
  p.py = p.y * level.height - 0.5;
  double const x0 = std::floor(p.px + x.cell), y0 = std::floor(p.py + y.cell);
  p.fx = std::clamp(p.px + x.share - x0, 0.0, 1.0);
  p.fy = std::clamp(p.py + y.share - y0, 0.0, 1.0);
  for (int dy = 0; dy <= 1; ++dy) {
    for (int dx = 0; dx <= 1; ++dx) {
      int const corner = 2 * dy + dx;
      p.share[corner] = (dx == 1 ? p.fx : 1 - p.fx) * (dy == 1 ? p.fy : 1 - p.fy);
      p.token[corner] = p.finite ? token_of(shape, p, x0 + dx, y0 + dy) : -1;
      p.touches = p.touches || p.token[corner] >= 0;
    }
  }
}

namespace {

constexpr double kFloat32Unit = 0x1p-24;
constexpr double kPositionRoundings = 8;

std::vector<double> softmax(std::vector<double> logits) {
  double largest = -std::numeric_limits<double>::infinity();
  for (double const logit : logits) largest = std::fmax(largest, logit);
  double sum = 0;
  for (double& logit : logits) sum += logit = std::exp(logit - largest);
  for (double& logit : logits) logit /= sum;
  return logits;
}

bool is_float(double x) { return static_cast<double>(static_cast<float>(x)) == x; }

}  // namespace

std::vector<double> softmax_distances(TestProblem const& problem) {
  constexpr double kLargest = 104;
  if (!problem.shape.fused()) return {};
  Index const K = problem.shape.point_total();
  std::vector<double> distances = problem.inputs[TensorId::kLogit];
  for (auto row = distances.begin(); row != distances.end(); row += K) {
    double const largest = *std::max_element(row, row + K);
    for (auto it = row; it != row + K; ++it) *it = std::min(largest - *it, kLargest);
  }
  return distances;
}

double position_error(TestProblem const& problem, Point const& p, Index axis, double u) {
  ProblemShape const& s = problem.shape;
  if (s.nearest()) return 0;
  LevelShape const& level = s.levels[at(p.level)];
  double const size = axis == 0 ? level.width : level.height;
  double const coord = axis == 0 ? p.x : p.y;
  double magnitude = std::fabs(coord);
  if (!s.fused()) {
    bool const narrow = u >= kFloat32Unit;
    if (narrow && is_float(coord) && is_float(coord * size) && is_float(coord * size - 0.5)) {
      return 0;
    }
  } else {
    Index const L = static_cast<Index>(s.levels.size()), R = s.reference_dim;
    Index const anchor = ((p.b * s.query_count + p.q) * L + p.level) * R + axis;
    double const reference = problem.inputs[TensorId::kReference][at(anchor)];
    magnitude = std::fabs(reference) + std::fabs(coord - reference);
  }
  return kPositionRoundings * u * (magnitude * size + 0.5);
}

Points make_points(TestProblem const& problem) {
  ProblemShape const& s = problem.shape;
  if (!s.fused()) return {problem.inputs[TensorId::kCoord], problem.inputs[TensorId::kWeight], {}};
  std::vector<double> const& reference = problem.inputs[TensorId::kReference];
  std::vector<double> const& offset = problem.inputs[TensorId::kOffset];
  std::vector<double> const& logit = problem.inputs[TensorId::kLogit];
  Index const K = s.point_total(), L = static_cast<Index>(s.levels.size()), R = s.reference_dim;
  Points points{offset, logit, {}};
  for (Index row = 0; row < s.batch * s.query_count * s.head_count; ++row) {
    auto const begin = logit.begin() + row * K;
    std::vector<double> const weights = softmax({begin, begin + K});
    std::copy(weights.begin(), weights.end(), points.weight.begin() + row * K);
    Index k = 0;
    for (Index l = 0; l < L; ++l) {
      LevelShape const& level = s.levels[at(l)];
      double const size[2] = {static_cast<double>(level.width), static_cast<double>(level.height)};
      const double* const anchor = &reference[at((row / s.head_count * L + l) * R)];
      for (Index p = 0; p < level.points; ++p, ++k) {
        for (Index axis = 0; axis < 2; ++axis) {
          double& coord = points.coord[at((row * K + k) * 2 + axis)];
          if (s.nearest()) {
            auto const sum = points_are_f64(s) ? nearest_coord<double> : nearest_coord<float>;
            Index const divisor = R == 4 ? level.points : axis == 0 ? level.width : level.height;
            coord = sum(anchor[axis], R == 4 ? anchor[2 + axis] : 0, coord, divisor, R == 4);
            continue;
          }
          coord = R == 2 ? anchor[axis] + coord / size[axis]
                         : anchor[axis] + coord / level.points * anchor[2 + axis] / 2;
        }
      }
    }
  }
  return points;
}

}  // namespace msda::test::oracle
