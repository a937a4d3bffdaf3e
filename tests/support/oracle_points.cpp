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

void place(ProblemShape const& shape, Point& p) {
  LevelShape const& level = shape.levels[at(p.level)];
  p.finite = std::isfinite(p.x) && std::isfinite(p.y);
  p.touches = false;
  p.px = p.x * level.width - 0.5;
  p.py = p.y * level.height - 0.5;
  double const x0 = std::floor(p.px), y0 = std::floor(p.py);
  p.fx = p.px - x0;
  p.fy = p.py - y0;
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

std::vector<double> softmax(std::vector<double> logits) {
  double largest = -std::numeric_limits<double>::infinity();
  for (double const logit : logits) largest = std::fmax(largest, logit);
  double sum = 0;
  for (double& logit : logits) sum += logit = std::exp(logit - largest);
  for (double& logit : logits) logit /= sum;
  return logits;
}

}  // namespace

Points make_points(TestProblem const& problem) {
  ProblemShape const& s = problem.shape;
  if (!s.fused()) return {problem.inputs[TensorId::kCoord], problem.inputs[TensorId::kWeight]};
  std::vector<double> const& reference = problem.inputs[TensorId::kReference];
  std::vector<double> const& offset = problem.inputs[TensorId::kOffset];
  std::vector<double> const& logit = problem.inputs[TensorId::kLogit];
  Index const K = s.point_total(), L = static_cast<Index>(s.levels.size()), R = s.reference_dim;
  Points points{offset, logit};
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
          coord = R == 2 ? anchor[axis] + coord / size[axis]
                         : anchor[axis] + coord / level.points * anchor[2 + axis] / 2;
        }
      }
    }
  }
  return points;
}

}  // namespace msda::test::oracle
