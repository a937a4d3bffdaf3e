#include "support/oracle.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace msda::test {
namespace {

using Index = std::int64_t;

std::size_t at(Index index) { return static_cast<std::size_t>(index); }

// A point with all that its sample depends on.
struct Point {
  Index b, q, m, level, k;
  double x, y, weight;
  bool finite;
  bool touches;  // at least one corner is inside the map
  double fx, fy;
  Index token[4];   // of the corners (y0 x0), (y0 x0+1), (y0+1 x0), (y0+1 x0+1); -1: outside
  double share[4];  // bilinear weights

  Index row(ProblemShape const& s) const { return (b * s.query_count + q) * s.head_count + m; }
};

void place(ProblemShape const& shape, Index level_start, Point& p) {
  LevelShape const& level = shape.levels[at(p.level)];
  double const width = level.width, height = level.height;
  p.finite = std::isfinite(p.x) && std::isfinite(p.y);
  p.touches = false;
  double const px = p.x * width - 0.5, py = p.y * height - 0.5;
  double const x0 = std::floor(px), y0 = std::floor(py);
  p.fx = px - x0;
  p.fy = py - y0;
  for (int dy = 0; dy <= 1; ++dy) {
    for (int dx = 0; dx <= 1; ++dx) {
      int const corner = 2 * dy + dx;
      double const cx = x0 + dx, cy = y0 + dy;
      p.share[corner] = (dx == 1 ? p.fx : 1 - p.fx) * (dy == 1 ? p.fy : 1 - p.fy);
      p.token[corner] = -1;
      bool const inside = cx >= 0 && cx <= width - 1 && cy >= 0 && cy <= height - 1;
      if (!p.finite || !inside) continue;
      Index const border = shape.value_border;
      p.token[corner] = level_start +
                        (static_cast<Index>(cy) + border) * (level.width + 2 * border) +
                        static_cast<Index>(cx) + border;
      p.touches = true;
    }
  }
}

std::vector<double> softmax(std::vector<double> logits) {
  double largest = -std::numeric_limits<double>::infinity();
  for (double const logit : logits) largest = std::fmax(largest, logit);
  double sum = 0;
  for (double& logit : logits) sum += logit = std::exp(logit - largest);
  for (double& logit : logits) logit /= sum;
  return logits;
}

// coord and weight of every point: given, or made from the fused inputs.
struct Points {
  std::vector<double> coord, weight;
};

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

template <typename Visit>
void for_each_point(ProblemShape const& s, Points const& points, Visit visit) {
  Index const K = s.point_total();
  for (Index b = 0; b < s.batch; ++b) {
    for (Index q = 0; q < s.query_count; ++q) {
      for (Index m = 0; m < s.head_count; ++m) {
        Index start = 0, k = 0;
        for (Index l = 0; l < static_cast<Index>(s.levels.size()); ++l) {
          for (Index p = 0; p < s.levels[at(l)].points; ++p, ++k) {
            Point point{b, q, m, l, k, 0, 0, 0, false, false, 0, 0, {}, {}};
            Index const index = point.row(s) * K + k;
            point.x = points.coord[at(2 * index)];
            point.y = points.coord[at(2 * index + 1)];
            point.weight = points.weight[at(index)];
            place(s, start, point);
            if (point.finite) visit(point);
          }
          start += s.level_tokens(s.levels[at(l)]);
        }
      }
    }
  }
}

// value times its scale; a corner outside is zero.
class Values {
 public:
  explicit Values(TestProblem const& problem)
      : shape_(problem.shape),
        value_(problem.inputs[TensorId::kValue]),
        scale_(problem.inputs[TensorId::kValueScale]) {}
  Index index(Index b, Index token, Index m, Index d) const {
    return ((b * shape_.token_count() + token) * shape_.head_count + m) * shape_.head_dim + d;
  }
  double scale(Index m) const { return scale_.empty() ? 1.0 : scale_[at(m)]; }
  double operator()(Index b, Index token, Index m, Index d) const {
    return token < 0 ? 0.0 : value_[at(index(b, token, m, d))] * scale(m);
  }
  double corner(Point const& p, int corner, Index d) const {
    return (*this)(p.b, p.token[corner], p.m, d);
  }

 private:
  ProblemShape const& shape_;
  std::vector<double> const& value_;
  std::vector<double> const& scale_;
};

void size_results(ProblemShape const& shape, OracleResult& result) {
  for (TensorRow const& row : tensor_rows()) {
    if (!row.is_result || !row.belongs_to(shape)) continue;
    std::size_t const count = at(layout_of(shape, row.id).element_count());
    result.values[row.id].assign(count, 0.0);
    result.magnitudes[row.id].assign(count, 0.0);
  }
}

struct Sum {
  double value = 0, magnitude = 0;
  void add(double term, double size) {
    value += term;
    magnitude += size;
  }
};

void add_to(OracleResult& result, TensorId id, Index index, Sum const& sum) {
  result.values[id][at(index)] += sum.value;
  result.magnitudes[id][at(index)] += sum.magnitude;
}

void forward(TestProblem const& problem, OracleResult& result) {
  ProblemShape const& s = problem.shape;
  Values const value(problem);
  for_each_point(s, make_points(problem), [&](Point const& p) {
    for (Index d = 0; d < s.head_dim; ++d) {
      Sum sample;
      for (int c = 0; c < 4; ++c) {
        if (p.token[c] < 0) continue;
        double const term = p.share[c] * value.corner(p, c, d);
        sample.add(term, std::fabs(term));
      }
      add_to(result, TensorId::kOutput, p.row(s) * s.head_dim + d,
             {p.weight * sample.value, std::fabs(p.weight) * sample.magnitude});
    }
  });
}

// Derivatives of sum(output * grad_output) by one point's weight, x and y.
struct PointGradient {
  Sum weight, x, y;
};

PointGradient point_gradient(TestProblem const& problem, Values const& value, Point const& p) {
  ProblemShape const& s = problem.shape;
  std::vector<double> const& grad_output = problem.inputs[TensorId::kGradOutput];
  PointGradient result;
  if (!p.touches) return result;
  for (Index d = 0; d < s.head_dim; ++d) {
    double const g = grad_output[at(p.row(s) * s.head_dim + d)];
    double v[4], size = 0;
    Sum sample;
    for (int c = 0; c < 4; ++c) {
      v[c] = value.corner(p, c, d);
      size += std::fabs(v[c]);
      if (p.token[c] >= 0) sample.add(p.share[c] * v[c], std::fabs(p.share[c] * v[c]));
    }
    double const by_x = (1 - p.fy) * (v[1] - v[0]) + p.fy * (v[3] - v[2]);
    double const by_y = (1 - p.fx) * (v[2] - v[0]) + p.fx * (v[3] - v[1]);
    result.weight.add(g * sample.value, std::fabs(g) * sample.magnitude);
    result.x.add(g * by_x, std::fabs(g) * size);
    result.y.add(g * by_y, std::fabs(g) * size);
  }
  LevelShape const& level = s.levels[at(p.level)];
  auto const scale = [&](Sum& sum, double by) {
    sum.value *= p.weight * by;
    sum.magnitude *= std::fabs(p.weight) * by;
  };
  scale(result.x, level.width);
  scale(result.y, level.height);
  return result;
}

void add_value_gradient(TestProblem const& problem, Values const& value, Point const& p,
                        OracleResult& result) {
  ProblemShape const& s = problem.shape;
  std::vector<double> const& grad_output = problem.inputs[TensorId::kGradOutput];
  for (int c = 0; c < 4; ++c) {
    if (p.token[c] < 0) continue;
    for (Index d = 0; d < s.head_dim; ++d) {
      double const g = grad_output[at(p.row(s) * s.head_dim + d)];
      double const term = p.weight * p.share[c] * g * value.scale(p.m);
      add_to(result, TensorId::kGradValue, value.index(p.b, p.token[c], p.m, d),
             {term, std::fabs(term)});
    }
  }
}

Sum times(Sum const& sum, double factor) {
  return {sum.value * factor, sum.magnitude * std::fabs(factor)};
}

// From the gradient of a point's coordinate to those of reference and offset.
void add_fused_gradient(TestProblem const& problem, Point const& p, PointGradient const& grad,
                        OracleResult& result) {
  ProblemShape const& s = problem.shape;
  if (!p.touches) return;
  Index const K = s.point_total(), L = static_cast<Index>(s.levels.size()), R = s.reference_dim;
  Index const anchor = ((p.b * s.query_count + p.q) * L + p.level) * R;
  LevelShape const& level = s.levels[at(p.level)];
  for (Index axis = 0; axis < 2; ++axis) {
    Sum const& by_coord = axis == 0 ? grad.x : grad.y;
    Index const offset_index = (p.row(s) * K + p.k) * 2 + axis;
    add_to(result, TensorId::kGradReference, anchor + axis, by_coord);
    if (R == 2) {
      double const pixels = axis == 0 ? level.width : level.height;
      add_to(result, TensorId::kGradOffset, offset_index, times(by_coord, 1 / pixels));
      continue;
    }
    double const box = problem.inputs[TensorId::kReference][at(anchor + 2 + axis)];
    double const offset = problem.inputs[TensorId::kOffset][at(offset_index)];
    double const half_share = 0.5 / level.points;
    add_to(result, TensorId::kGradOffset, offset_index, times(by_coord, box * half_share));
    add_to(result, TensorId::kGradReference, anchor + 2 + axis,
           times(by_coord, offset * half_share));
  }
}

// d softmax: grad_logit_k = w_k (g_k - sum_j w_j g_j).
void finish_logits(ProblemShape const& s, Points const& points, OracleResult const& by_weight,
                   OracleResult& result) {
  Index const K = s.point_total();
  std::vector<double> const& grads = by_weight.values[TensorId::kGradWeight];
  std::vector<double> const& sizes = by_weight.magnitudes[TensorId::kGradWeight];
  for (Index row = 0; row < s.batch * s.query_count * s.head_count; ++row) {
    Sum mean;
    for (Index i = row * K; i < (row + 1) * K; ++i) {
      mean.add(points.weight[at(i)] * grads[at(i)], points.weight[at(i)] * sizes[at(i)]);
    }
    for (Index i = row * K; i < (row + 1) * K; ++i) {
      double const w = points.weight[at(i)];
      add_to(result, TensorId::kGradLogit, i,
             {w * (grads[at(i)] - mean.value), w * (sizes[at(i)] + mean.magnitude)});
    }
  }
}

void backward(TestProblem const& problem, OracleResult& result) {
  ProblemShape const& s = problem.shape;
  Index const K = s.point_total();
  Values const value(problem);
  Points const points = make_points(problem);
  OracleResult by_weight;
  std::size_t const count = at(s.batch * s.query_count * s.head_count * K);
  by_weight.values[TensorId::kGradWeight].assign(count, 0.0);
  by_weight.magnitudes[TensorId::kGradWeight].assign(count, 0.0);
  for_each_point(s, points, [&](Point const& p) {
    add_value_gradient(problem, value, p, result);
    PointGradient const grad = point_gradient(problem, value, p);
    Index const index = p.row(s) * K + p.k;
    add_to(s.fused() ? by_weight : result, TensorId::kGradWeight, index, grad.weight);
    if (s.fused()) {
      add_fused_gradient(problem, p, grad, result);
    } else {
      add_to(result, TensorId::kGradCoord, 2 * index, grad.x);
      add_to(result, TensorId::kGradCoord, 2 * index + 1, grad.y);
    }
  });
  if (s.fused()) finish_logits(s, points, by_weight, result);
}

// The largest finite difference of neighbouring pixels of a level and the zeros around it.
double largest_step(ProblemShape const& s, Values const& value, Index l, Index level_start, Index b,
                    Index m, Index d) {
  LevelShape const& level = s.levels[at(l)];
  auto const pixel = [&](Index y, Index x) {
    if (y < 0 || x < 0 || y >= level.height || x >= level.width) return 0.0;
    Index const pitch = level.width + 2 * s.value_border;
    return value(b, level_start + (y + s.value_border) * pitch + x + s.value_border, m, d);
  };
  double largest = 0;
  for (Index y = -1; y < level.height; ++y) {
    for (Index x = -1; x < level.width; ++x) {
      for (double const step : {pixel(y, x + 1) - pixel(y, x), pixel(y + 1, x) - pixel(y, x)}) {
        if (std::isfinite(step)) largest = std::max(largest, std::fabs(step));
      }
    }
  }
  return largest;
}

}  // namespace

OracleResult run_oracle(TestProblem const& problem) {
  OracleResult result;
  size_results(problem.shape, result);
  if (problem.shape.backward()) {
    backward(problem, result);
  } else {
    forward(problem, result);
  }
  return result;
}

std::vector<double> output_slopes(TestProblem const& problem, Slope slope) {
  ProblemShape const& s = problem.shape;
  Index const B = s.batch, M = s.head_count, D = s.head_dim;
  Values const value(problem);
  Index start = 0;
  std::vector<double> steps;  // [L][B][M][D]
  for (Index l = 0; l < static_cast<Index>(s.levels.size()); ++l) {
    for (Index i = 0; i < B * M * D; ++i) {
      steps.push_back(largest_step(s, value, l, start, i / (M * D), i / D % M, i % D));
    }
    start += s.level_tokens(s.levels[at(l)]);
  }
  std::vector<double> slopes(at(B * s.query_count * M * D), 0.0);
  for_each_point(s, make_points(problem), [&](Point const& p) {
    if (!p.touches) return;
    LevelShape const& level = s.levels[at(p.level)];
    std::int64_t const pixels = slope == Slope::kOfMap ? std::max(level.width, level.height) : 1;
    double const size = std::fabs(p.weight) * static_cast<double>(pixels);
    for (Index d = 0; d < D; ++d) {
      slopes[at(p.row(s) * D + d)] += size * steps[at(((p.level * B + p.b) * M + p.m) * D + d)];
    }
  });
  return slopes;
}

Arrays float32_kinks(TestProblem const& problem) {
  ProblemShape const& s = problem.shape;
  Index const L = static_cast<Index>(s.levels.size()), R = s.reference_dim;
  Index const rows = s.batch * s.query_count * s.head_count;
  Arrays kinks;
  std::vector<double>& by_point = kinks[s.fused() ? TensorId::kGradOffset : TensorId::kGradCoord];
  std::vector<double>& by_reference = kinks[TensorId::kGradReference];
  by_point.resize(at(2 * rows * s.point_total()));
  if (s.fused()) by_reference.resize(at(s.batch * s.query_count * L * R));
  for_each_point(s, make_points(problem), [&](Point const& p) {
    LevelShape const& level = s.levels[at(p.level)];
    double const pixels[2] = {p.x * level.width - 0.5, p.y * level.height - 0.5};
    for (Index axis = 0; axis < 2; ++axis) {
      double const size = axis == 0 ? level.width : level.height;
      double const near = 0x1p-20 * (size + 1 + std::fabs(pixels[axis]));
      if (!(std::fabs(pixels[axis] - std::nearbyint(pixels[axis])) <= near)) continue;
      by_point[at(2 * (p.row(s) * s.point_total() + p.k) + axis)] = 1;
      for (Index i = axis; i < R; i += 2) {
        by_reference[at(((p.b * s.query_count + p.q) * L + p.level) * R + i)] = 1;
      }
    }
  });
  return kinks;
}

}  // namespace msda::test
