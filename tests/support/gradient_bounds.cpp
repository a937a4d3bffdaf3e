// The model. u is half the distance from 1 to the next number of the arithmetic.
//
// Position. Up to 8 operations make px of a coordinate, each good to u of the magnitudes that were
// added up: |x| W + 1/2, or (|reference| + |offset term|) W + 1/2 of fused input. So px is good to
//   dx = 8 u (magnitudes of x W + 1/2),
// and exact where the product and the difference are numbers of float32 themselves (sampled input).
//
// Attention weight. As given, or made by the softmax from a difference of logits, which the power
// magnifies, and a sum of K powers:
//   dw = w u (2 |logit - largest| + K + 8), at most 104 for the difference: e^-104 is no number.
//
// Sums. n terms added in any order, each a product of at most 7 factors and roundings, are good to
//   (n + 8) u sum |terms|.
// grad_value of a pixel: n is the number of points that reach it, counted. A term w c g moves by
//   |w g| (dx + dy) + dw c |g|, for c, a tent, rises by 1 a pixel at most.
// grad_weight: n = D; sum |g| over channels of sum |c v|, and by position |g| (dx |step along x| +
//   dy |step along y|) of the pixels around.
// grad_coord: n = D. Within a cell of four pixels the derivative by px does not depend on px and
//   changes with py by the mixed difference of the four: |w| W sum |g| dy |v00 - v01 - v10 + v11|.
//   Where px is within dx of a pixel line, the cells on both sides count: the result must be
//   between their derivatives. dw comes as for grad_value.
// grad_offset: grad_coord times a factor of three more roundings.
// grad_reference: n = M P_l terms, each with the error of its grad_coord.
// grad_logit = w_k (g_k - sum w_j g_j), n = K, with the errors of the weights and of g.
//
// Nearest sampling. dx and dy are 0: rounding is part of the formula. Gradients by position are
// exactly 0.
//
// Products of these errors are left to kSlack. dx is below half a pixel wherever a point is near a
// map: only coordinates far beyond it are known less well.
#include "support/gradient_bounds.h"

#include "support/oracle_points.h"

#include <algorithm>
#include <limits>

namespace msda::test {

using namespace oracle;

namespace {

constexpr double kSlack = 1.01;
constexpr double kRoundings = 8;

double finite_or_zero(double x) { return std::isfinite(x) ? x : 0.0; }

// The pixels that may be the last one before a position: one, or two at a pixel line.
struct Sides {
  double first[2];
  int count;
  int exact;  // which of them is the oracle's
};

Sides sides_of(double position, double error, bool may_cross) {
  double const line = std::nearbyint(position);
  if (!may_cross || !(std::fabs(position - line) <= error) || error == 0) {
    return {{std::floor(position), 0}, 1, 0};
  }
  return {{line - 1, line}, 2, std::floor(position) == line ? 1 : 0};
}

// Sums over the channels of a point, of one cell of four pixels.
struct CellSums {
  double by_x = 0, by_y = 0, by_weight = 0;              // derivatives
  double size_x = 0, size_y = 0, size_weight = 0;        // magnitudes of their terms
  double step_x = 0, step_y = 0, mixed = 0, pixels = 0;  // differences and magnitudes of pixels
  double underflow = 0;                                  // of products
};

// A number with how far it may be off.
struct Uncertain {
  double value = 0, error = 0;
};

// The derivative by one coordinate of a point: the oracle's, the other sides', the error of each.
struct CoordGradient {
  double value = 0, error = 0, below = 0, above = 0;

  CoordGradient times(double factor, Precision const& precision) const {
    double const size = std::fabs(factor), largest = std::fabs(value) + below + above;
    CoordGradient result{value * factor, error * size, below * size, above * size};
    result.error += 4 * precision.u * largest * size + precision.smallest * (1 + largest);
    if (factor < 0) std::swap(result.below, result.above);
    return result;
  }
};

class Model {
 public:
  Model(TestProblem const& problem, Precision const& precision)
      : problem_(problem),
        s_(problem.shape),
        precision_(precision),
        value_(problem),
        grad_output_(problem.inputs[TensorId::kGradOutput]),
        points_(make_points(problem)),
        by_weight_(points_.weight.size()) {
    for (TensorRow const& row : tensor_rows()) {
      if (!row.is_result() || !row.belongs_to(s_)) continue;
      std::size_t const count = at(layout_of(s_, row.id).element_count());
      for (Arrays* const arrays : {&result_.bound, &result_.below, &result_.above}) {
        (*arrays)[row.id].assign(count, 0.0);
      }
      if (row.id != TensorId::kGradValue && row.id != TensorId::kGradReference) continue;
      sizes_[row.id].assign(count, 0.0);
      terms_[row.id].assign(count, 0.0);
    }
  }

  GradientBounds run() {
    find_weight_errors();
    for_each_point(s_, points_, [&](Point const& p) { add_point(p); });
    if (s_.fused()) finish_logits();
    for (TensorId const id : {TensorId::kGradValue, TensorId::kGradReference}) {
      for (std::size_t i = 0; i < sizes_[id].size(); ++i) {
        result_.bound[id][i] += (terms_[id][i] + kRoundings) * u() * sizes_[id][i] +
                                terms_[id][i] * precision_.smallest;
      }
    }
    for (std::vector<double>& bounds : result_.bound.by_id) {
      for (double& bound : bounds) bound *= kSlack;
    }
    return std::move(result_);
  }

 private:
  double u() const { return precision_.u; }
  double grad_output(Point const& p, Index d) const {
    return grad_output_[at(p.row(s_) * s_.head_dim + d)];
  }
  LevelShape const& level(Point const& p) const { return s_.levels[at(p.level)]; }

  void find_weight_errors();
  void add_point(Point const& p);
  void add_to_values(Point const& p, Sides const& xs, Sides const& ys, double error);
  CellSums sum_cell(Point const& p, double x0, double y0) const;
  void add_to_references(Point const& p, Index axis, CoordGradient const& by_coord);
  void store(TensorId id, Index index, CoordGradient const& gradient);
  void finish_logits();

  TestProblem const& problem_;
  ProblemShape const& s_;
  Precision precision_;
  Values value_;
  std::vector<double> const& grad_output_;
  Points points_;
  std::vector<double> weight_errors_;  // [B][Q][M][K]
  std::vector<Uncertain> by_weight_;   // [B][Q][M][K]
  Arrays sizes_, terms_;               // of sums over points: magnitudes, and how many there are
  GradientBounds result_;
};

void Model::find_weight_errors() {
  Index const K = s_.point_total();
  std::vector<double> const& logit = problem_.inputs[TensorId::kLogit];
  std::vector<double> const distances = softmax_distances(problem_);
  // Float64 logits that are read as float32 are rounded themselves.
  bool const rounds = s_.weight_dtype == MSDA_DTYPE_F64 && precision_.may_cross_lines;
  for (std::size_t i = 0; i < points_.weight.size(); ++i) {
    double units = 1;
    if (s_.fused()) {
      units = 2 * distances[i] + static_cast<double>(K) + kRoundings;
      auto const row = logit.begin() + static_cast<Index>(i) / K * K;
      if (rounds) units += std::fabs(*std::max_element(row, row + K)) + std::fabs(logit[i]);
    }
    double const weight = std::fabs(finite_or_zero(points_.weight[i]));
    weight_errors_.push_back(u() * weight * finite_or_zero(units) + precision_.smallest);
  }
}

CellSums Model::sum_cell(Point const& p, double x0, double y0) const {
  CellSums sums;
  double const fx = std::clamp(p.px - x0, 0.0, 1.0), fy = std::clamp(p.py - y0, 0.0, 1.0);
  double const scale = std::fabs(value_.scale(p.m));
  Index token[4];
  for (int c = 0; c < 4; ++c) token[c] = token_of(s_, p, x0 + (c & 1), y0 + (c >> 1));
  for (Index d = 0; d < s_.head_dim; ++d) {
    double const g = finite_or_zero(grad_output(p, d)), size = std::fabs(g);
    double v[4], a[4];
    for (int c = 0; c < 4; ++c) {
      v[c] = finite_or_zero(value_(p.b, token[c], p.m, d));
      a[c] = std::fabs(v[c]);
    }
    sums.by_x += g * ((1 - fy) * (v[1] - v[0]) + fy * (v[3] - v[2]));
    sums.by_y += g * ((1 - fx) * (v[2] - v[0]) + fx * (v[3] - v[1]));
    sums.by_weight +=
        g * ((1 - fy) * ((1 - fx) * v[0] + fx * v[1]) + fy * ((1 - fx) * v[2] + fx * v[3]));
    sums.size_x += size * ((1 - fy) * (a[0] + a[1]) + fy * (a[2] + a[3]));
    sums.size_y += size * ((1 - fx) * (a[0] + a[2]) + fx * (a[1] + a[3]));
    sums.size_weight +=
        size * ((1 - fy) * ((1 - fx) * a[0] + fx * a[1]) + fy * ((1 - fx) * a[2] + fx * a[3]));
    sums.step_x += size * std::max(std::fabs(v[1] - v[0]), std::fabs(v[3] - v[2]));
    sums.step_y += size * std::max(std::fabs(v[2] - v[0]), std::fabs(v[3] - v[1]));
    sums.mixed += size * std::fabs(v[0] - v[1] - v[2] + v[3]);
    sums.pixels += size * (a[0] + a[1] + a[2] + a[3]);
    sums.underflow += kRoundings * precision_.smallest * (1 + size) * (1 + scale);
  }
  return sums;
}

void Model::add_to_values(Point const& p, Sides const& xs, Sides const& ys, double error) {
  double const weight = std::fabs(finite_or_zero(p.weight));
  double const scale = std::fabs(value_.scale(p.m));
  for (double y = ys.first[0]; y <= ys.first[ys.count - 1] + 1; ++y) {
    for (double x = xs.first[0]; x <= xs.first[xs.count - 1] + 1; ++x) {
      Index const token = token_of(s_, p, x, y);
      if (token < 0) continue;
      double const c =
          std::max(0.0, 1 - std::fabs(p.px - x)) * std::max(0.0, 1 - std::fabs(p.py - y));
      double const more =
          weight * error + weight_errors_[at(p.index(s_))] * (c + error) + precision_.smallest;
      for (Index d = 0; d < s_.head_dim; ++d) {
        double const g = std::fabs(finite_or_zero(grad_output(p, d))) * scale;
        std::size_t const i = at(value_.index(p.b, token, p.m, d));
        sizes_[TensorId::kGradValue][i] += weight * c * g;
        terms_[TensorId::kGradValue][i] += 1;
        result_.bound[TensorId::kGradValue][i] += more * g;
      }
    }
  }
}

void Model::add_point(Point const& p) {
  if (s_.nearest() && !p.touches) return;
  double const dx = position_error(problem_, p, 0, u()), dy = position_error(problem_, p, 1, u());
  bool const near = p.px >= -1 - dx && p.px <= level(p).width + dx && p.py >= -1 - dy &&
                    p.py <= level(p).height + dy;
  if (!near) return;
  Sides const xs = sides_of(p.px, dx, precision_.may_cross_lines);
  Sides const ys = sides_of(p.py, dy, precision_.may_cross_lines);
  add_to_values(p, xs, ys, dx + dy);

  CellSums cells[2][2], most;  // [y][x]
  for (int j = 0; j < ys.count; ++j) {
    for (int i = 0; i < xs.count; ++i) {
      CellSums const& cell = cells[j][i] = sum_cell(p, xs.first[i], ys.first[j]);
      for (double CellSums::* const member :
           {&CellSums::size_x, &CellSums::size_y, &CellSums::size_weight, &CellSums::step_x,
            &CellSums::step_y, &CellSums::mixed, &CellSums::pixels, &CellSums::underflow}) {
        most.*member = std::max(most.*member, cell.*member);
      }
    }
  }
  double const rounding = (static_cast<double>(s_.head_dim) + kRoundings) * u();
  double const beside = (dx + dy) * most.pixels;  // the magnitudes move too
  by_weight_[at(p.index(s_))] = {cells[ys.exact][xs.exact].by_weight,
                                 rounding * (most.size_weight + beside) + dx * most.step_x +
                                     dy * most.step_y + dx * dy * most.mixed};
  double const weight = finite_or_zero(p.weight);
  for (Index axis = 0; axis < 2 && !s_.nearest(); ++axis) {
    Sides const& sides = axis == 0 ? xs : ys;
    double const size = axis == 0 ? level(p).width : level(p).height;
    double const of_sum = rounding * ((axis == 0 ? most.size_x : most.size_y) + beside) +
                          (axis == 0 ? dy : dx) * most.mixed + most.underflow;
    auto const derivative = [&](int side) {
      return axis == 0 ? cells[ys.exact][side].by_x : cells[side][xs.exact].by_y;
    };
    CoordGradient gradient;
    double const exact = derivative(sides.exact);
    double largest = std::fabs(exact);
    gradient.value = weight * size * exact;
    for (int side = 0; side < sides.count; ++side) {
      double const other = weight * size * derivative(side);
      gradient.below = std::max(gradient.below, gradient.value - other);
      gradient.above = std::max(gradient.above, other - gradient.value);
      largest = std::max(largest, std::fabs(derivative(side)));
    }
    double const of_weight = weight_errors_[at(p.index(s_))] + 3 * u() * std::fabs(weight);
    gradient.error = size * (std::fabs(weight) * of_sum + of_weight * (largest + of_sum)) +
                     size * precision_.smallest;
    if (s_.fused()) {
      add_to_references(p, axis, gradient);
    } else {
      store(TensorId::kGradCoord, 2 * p.index(s_) + axis, gradient);
    }
  }
  if (!s_.fused()) {
    result_.bound[TensorId::kGradWeight][at(p.index(s_))] = by_weight_[at(p.index(s_))].error;
  }
}

void Model::store(TensorId id, Index index, CoordGradient const& gradient) {
  result_.bound[id][at(index)] += gradient.error;
  result_.below[id][at(index)] += gradient.below;
  result_.above[id][at(index)] += gradient.above;
}

void Model::add_to_references(Point const& p, Index axis, CoordGradient const& by_coord) {
  Index const L = static_cast<Index>(s_.levels.size()), R = s_.reference_dim;
  Index const anchor = ((p.b * s_.query_count + p.q) * L + p.level) * R + axis;
  Index const offset_index = 2 * p.index(s_) + axis;
  auto const add = [&](Index index, CoordGradient const& gradient) {
    store(TensorId::kGradReference, index, gradient);
    sizes_[TensorId::kGradReference][at(index)] +=
        std::fabs(gradient.value) + gradient.below + gradient.above;
    terms_[TensorId::kGradReference][at(index)] += 1;
  };
  add(anchor, by_coord);
  if (R == 2) {
    double const size = axis == 0 ? level(p).width : level(p).height;
    store(TensorId::kGradOffset, offset_index, by_coord.times(1 / size, precision_));
    return;
  }
  double const half_share = 0.5 / level(p).points;
  double const box = problem_.inputs[TensorId::kReference][at(anchor + 2)];
  double const offset = problem_.inputs[TensorId::kOffset][at(offset_index)];
  store(TensorId::kGradOffset, offset_index, by_coord.times(box * half_share, precision_));
  add(anchor + 2, by_coord.times(offset * half_share, precision_));
}

void Model::finish_logits() {
  Index const K = s_.point_total();
  for (Index row = 0; row < s_.batch * s_.query_count * s_.head_count; ++row) {
    double mean = 0, error = 0;  // |mean| at most, and how far it may be off
    for (Index i = row * K; i < (row + 1) * K; ++i) {
      double const weight = finite_or_zero(points_.weight[at(i)]);
      Uncertain const g = by_weight_[at(i)];
      mean += weight * std::fabs(g.value);
      error += weight * g.error + weight_errors_[at(i)] * (std::fabs(g.value) + g.error);
    }
    error += (static_cast<double>(K) + kRoundings) * u() * mean;
    for (Index i = row * K; i < (row + 1) * K; ++i) {
      Uncertain const g = by_weight_[at(i)];
      double const weight = finite_or_zero(points_.weight[at(i)]);
      double const difference = std::fabs(g.value) + mean + g.error + error;
      result_.bound[TensorId::kGradLogit][at(i)] =
          weight * (g.error + error) + (weight_errors_[at(i)] + 4 * u() * weight) * difference +
          precision_.smallest;
    }
  }
}

}  // namespace

GradientBounds gradient_bounds(TestProblem const& problem, Precision const& precision) {
  return Model(problem, precision).run();
}

}  // namespace msda::test
