#include "support/oracle.h"

#include "support/oracle_points.h"

#include <algorithm>
#include <cmath>

namespace msda::test {

using namespace oracle;

namespace {

void size_results(ProblemShape const& shape, OracleResult& result) {
  for (TensorRow const& row : tensor_rows()) {
    if (!row.is_result() || !row.belongs_to(shape)) continue;
    result.values[row.id].assign(at(layout_of(shape, row.id).element_count()), 0.0);
  }
}

void forward(TestProblem const& problem, Points const& points, OracleResult& result) {
  ProblemShape const& s = problem.shape;
  Values const value(problem);
  std::vector<double>& output = result.values[TensorId::kOutput];
  result.output_magnitudes.assign(output.size(), 0.0);
  result.output_distances.assign(output.size(), 0.0);
  std::vector<double> const distances = softmax_distances(problem);
  for_each_point(s, points, [&](Point const& p) {
    for (Index d = 0; d < s.head_dim; ++d) {
      double sample = 0, magnitude = 0;
      for (int c = 0; c < 4; ++c) {
        if (p.token[c] < 0) continue;
        double const term = p.share[c] * value.corner(p, c, d);
        sample += term;
        magnitude += std::fabs(term);
      }
      std::size_t const i = at(p.row(s) * s.head_dim + d);
      output[i] += p.weight * sample;
      double const weighed = std::fabs(p.weight) * magnitude;
      result.output_magnitudes[i] += weighed;
      if (!distances.empty()) result.output_distances[i] += weighed * distances[at(p.index(s))];
    }
  });
}

// Derivatives of sum(output * grad_output) by one point's weight, x and y.
struct PointGradient {
  double weight = 0, x = 0, y = 0;
};

PointGradient point_gradient(TestProblem const& problem, Values const& value, Point const& p) {
  ProblemShape const& s = problem.shape;
  std::vector<double> const& grad_output = problem.inputs[TensorId::kGradOutput];
  PointGradient result;
  if (!p.touches) return result;
  for (Index d = 0; d < s.head_dim; ++d) {
    double const g = grad_output[at(p.row(s) * s.head_dim + d)];
    double v[4], sample = 0;
    for (int c = 0; c < 4; ++c) {
      v[c] = value.corner(p, c, d);
      if (p.token[c] >= 0) sample += p.share[c] * v[c];
    }
    result.weight += g * sample;
    result.x += g * ((1 - p.fy) * (v[1] - v[0]) + p.fy * (v[3] - v[2]));
    result.y += g * ((1 - p.fx) * (v[2] - v[0]) + p.fx * (v[3] - v[1]));
  }
  if (s.nearest()) return {result.weight, 0, 0};
  LevelShape const& level = s.levels[at(p.level)];
  result.x *= p.weight * level.width;
  result.y *= p.weight * level.height;
  return result;
}

void add_value_gradient(TestProblem const& problem, Values const& value, Point const& p,
                        Arrays& gradients) {
  ProblemShape const& s = problem.shape;
  std::vector<double> const& grad_output = problem.inputs[TensorId::kGradOutput];
  for (int c = 0; c < 4; ++c) {
    if (p.token[c] < 0) continue;
    for (Index d = 0; d < s.head_dim; ++d) {
      double const g = grad_output[at(p.row(s) * s.head_dim + d)];
      gradients[TensorId::kGradValue][at(value.index(p.b, p.token[c], p.m, d))] +=
          p.weight * p.share[c] * g * value.scale(p.m);
    }
  }
}

// From the gradient of a point's coordinate to those of reference and offset.
void add_fused_gradient(TestProblem const& problem, Point const& p, PointGradient const& grad,
                        Arrays& gradients) {
  ProblemShape const& s = problem.shape;
  if (!p.touches) return;
  Index const L = static_cast<Index>(s.levels.size()), R = s.reference_dim;
  Index const anchor = ((p.b * s.query_count + p.q) * L + p.level) * R;
  LevelShape const& level = s.levels[at(p.level)];
  std::vector<double>& by_reference = gradients[TensorId::kGradReference];
  for (Index axis = 0; axis < 2; ++axis) {
    double const by_coord = axis == 0 ? grad.x : grad.y;
    std::size_t const offset_index = at(p.index(s) * 2 + axis);
    double& by_offset = gradients[TensorId::kGradOffset][offset_index];
    by_reference[at(anchor + axis)] += by_coord;
    if (R == 2) {
      by_offset = by_coord / (axis == 0 ? level.width : level.height);
      continue;
    }
    double const half_share = 0.5 / level.points;
    by_offset = by_coord * half_share * problem.inputs[TensorId::kReference][at(anchor + 2 + axis)];
    by_reference[at(anchor + 2 + axis)] +=
        by_coord * half_share * problem.inputs[TensorId::kOffset][offset_index];
  }
}

// d softmax: grad_logit_k = w_k (g_k - sum_j w_j g_j).
void finish_logits(ProblemShape const& s, Points const& points,
                   std::vector<double> const& by_weight, std::vector<double>& by_logit) {
  Index const K = s.point_total();
  for (Index row = 0; row < s.batch * s.query_count * s.head_count; ++row) {
    double mean = 0;
    for (Index i = row * K; i < (row + 1) * K; ++i) mean += points.weight[at(i)] * by_weight[at(i)];
    for (Index i = row * K; i < (row + 1) * K; ++i) {
      by_logit[at(i)] = points.weight[at(i)] * (by_weight[at(i)] - mean);
    }
  }
}

void backward(TestProblem const& problem, Points const& points, Arrays& gradients) {
  ProblemShape const& s = problem.shape;
  Values const value(problem);
  std::vector<double> by_weight(points.weight.size());
  for_each_point(s, points, [&](Point const& p) {
    add_value_gradient(problem, value, p, gradients);
    PointGradient const grad = point_gradient(problem, value, p);
    Index const index = p.index(s);
    by_weight[at(index)] = grad.weight;
    if (s.fused()) {
      add_fused_gradient(problem, p, grad, gradients);
    } else {
      gradients[TensorId::kGradCoord][at(2 * index)] = grad.x;
      gradients[TensorId::kGradCoord][at(2 * index + 1)] = grad.y;
    }
  });
  if (s.fused()) {
    finish_logits(s, points, by_weight, gradients[TensorId::kGradLogit]);
  } else {
    gradients[TensorId::kGradWeight] = by_weight;
  }
}

OracleResult run_on(TestProblem const& problem, Points const& points) {
  OracleResult result;
  size_results(problem.shape, result);
  if (problem.shape.backward()) {
    backward(problem, points, result.values);
  } else {
    forward(problem, points, result);
  }
  return result;
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
  return run_on(problem, make_points(problem));
}

std::vector<OracleResult> run_oracle_beside(TestProblem const& problem, double share_error) {
  if (problem.shape.nearest()) return {};  // rounding is part of the formula
  Points points = make_points(problem);
  std::vector<double> errors(points.coord.size(), 0.0);
  bool is_near_line = false;
  for_each_point(problem.shape, points, [&](Point const& p) {
    for (Index axis = 0; axis < 2; ++axis) {
      LevelShape const& level = problem.shape.levels[at(p.level)];
      double const size = axis == 0 ? level.width : level.height;
      double const error = position_error(problem, p, axis, 0x1p-24);
      double const low = (axis == 0 ? p.px : p.py) - error, high = low + 2 * error;
      errors[at(2 * p.index(problem.shape) + axis)] = error;
      is_near_line =
          is_near_line || (high >= -1 && low <= size && std::floor(low) != std::floor(high));
    }
  });
  std::vector<OracleResult> results;
  auto const run_on_all_sides = [&](auto const& move_by) {
    for (double const side_x : {-1, 1}) {
      for (double const side_y : {-1, 1}) {
        points.moves.clear();
        for (std::size_t i = 0; i < errors.size(); ++i) {
          points.moves.push_back(move_by(i, i % 2 == 0 ? side_x : side_y));
        }
        results.push_back(run_on(problem, points));
      }
    }
  };
  if (is_near_line) {
    run_on_all_sides([&](std::size_t i, double side) { return Move{side * errors[i], 0}; });
  }
  if (std::ranges::any_of(points.weight, [](double w) { return std::isinf(w); })) {
    run_on_all_sides(
        [&](std::size_t i, double side) { return Move{0, side * (errors[i] + share_error)}; });
  }
  return results;
}

std::vector<double> output_slopes(TestProblem const& problem, Slope slope) {
  ProblemShape const& s = problem.shape;
  Index const B = s.batch, M = s.head_count, D = s.head_dim;
  Values const value(problem);
  std::vector<Index> const starts = s.level_starts();
  std::vector<double> steps;  // [L][B][M][D]
  for (Index l = 0; l < static_cast<Index>(s.levels.size()); ++l) {
    for (Index i = 0; i < B * M * D; ++i) {
      steps.push_back(largest_step(s, value, l, starts[at(l)], i / (M * D), i / D % M, i % D));
    }
  }
  std::vector<double> slopes(at(B * s.query_count * M * D), 0.0);
  if (s.nearest()) return slopes;  // the pixel is exact
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

}  // namespace msda::test
