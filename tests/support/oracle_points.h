// What the oracle and its error bounds share: where the points of a problem lie, what they weigh
// and which pixels they touch. For tests/support/oracle*.cpp alone.
#pragma once

#include "support/test_problem.h"

#include <cmath>
#include <cstdint>
#include <vector>

namespace msda::test::oracle {

using Index = std::int64_t;

inline std::size_t at(Index index) { return static_cast<std::size_t>(index); }

// A point with all that its sample depends on.
struct Point {
  Index b, q, m, level, k;
  double x, y, weight;
  double px, py;  // in pixels of the level
  bool finite;
  bool touches;  // at least one corner is inside the map
  double fx, fy;
  Index token[4];   // of the corners (y0 x0), (y0 x0+1), (y0+1 x0), (y0+1 x0+1); -1: outside
  double share[4];  // bilinear weights
  Index level_start;

  Index row(ProblemShape const& s) const { return (b * s.query_count + q) * s.head_count + m; }
  Index index(ProblemShape const& s) const { return row(s) * s.point_total() + k; }
};

// The token of a pixel of the point's level; -1: outside the map.
Index token_of(ProblemShape const& shape, Point const& p, double cx, double cy);
// A move is the pixels that a coordinate is shifted by before its cell of four pixels is chosen,
// and before the shares of these are.
struct Move {
  double cell = 0, share = 0;
};
// From x and y everything that follows from them.
void place(ProblemShape const& shape, Point& p, Move x, Move y);

// coord and weight of every point: given, or made from the fused inputs.
struct Points {
  std::vector<double> coord, weight;
  std::vector<Move> moves;  // of each coordinate; empty: none is moved
};
Points make_points(TestProblem const& problem);

// How far the logit of each point lies below the largest of its row, which is what the relative
// error of its weight grows with; 104 at most: e^-104 is no float32. Sampled input: empty.
std::vector<double> softmax_distances(TestProblem const& problem);

// How far rounding may take a position along an axis, in pixels: 8 operations at most, see
// gradient_bounds.cpp. u: half the distance from 1 to the next number of the arithmetic.
double position_error(TestProblem const& problem, Point const& p, Index axis, double u);

// Every point with finite coordinates.
template <typename Visit>
void for_each_point(ProblemShape const& s, Points const& points, Visit visit) {
  std::vector<Index> const starts = s.level_starts();
  for (Index row = 0; row < s.batch * s.query_count * s.head_count; ++row) {
    Point p{};
    p.b = row / s.head_count / s.query_count;
    p.q = row / s.head_count % s.query_count;
    p.m = row % s.head_count;
    for (p.level = 0; p.level < static_cast<Index>(s.levels.size()); ++p.level) {
      LevelShape const& level = s.levels[at(p.level)];
      p.level_start = starts[at(p.level)];
      for (std::int32_t i = 0; i < level.points; ++i, ++p.k) {
        Index const index = p.index(s);
        p.x = points.coord[at(2 * index)];
        p.y = points.coord[at(2 * index + 1)];
        p.weight = points.weight[at(index)];
        bool const moved = !points.moves.empty();
        place(s, p, moved ? points.moves[at(2 * index)] : Move{},
              moved ? points.moves[at(2 * index + 1)] : Move{});
        if (p.finite) visit(p);
      }
    }
  }
}

// value times its scale; a corner outside is zero.
class Values {
 public:
  explicit Values(TestProblem const& problem)
      : shape_(problem.shape),
        token_count_(shape_.token_count()),
        value_(problem.inputs[TensorId::kValue]),
        scale_(problem.inputs[TensorId::kValueScale]) {}
  Index index(Index b, Index token, Index m, Index d) const {
    return ((b * token_count_ + token) * shape_.head_count + m) * shape_.head_dim + d;
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
  Index token_count_;
  std::vector<double> const& value_;
  std::vector<double> const& scale_;
};

}  // namespace msda::test::oracle
