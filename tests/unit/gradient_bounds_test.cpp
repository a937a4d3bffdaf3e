// The bounds of gradients hold for a plain computation in float32, and are tight enough to see what
// is wrong. No kernel for the CPU computes gradients in float32: those of GPUs are held to these
// bounds.

#include "support/case_file.h"
#include "support/tolerance.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

using namespace msda::test;

namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// Backward in float32, with sums in the order of the loops: the longest chains that there are.
class Float32Backward {
 public:
  explicit Float32Backward(TestProblem const& problem) : problem_(problem), s_(problem.shape) {
    for (TensorRow const& row : tensor_rows()) {
      if (!row.is_result() || !row.belongs_to(s_)) continue;
      sums_[static_cast<std::size_t>(row.id)].assign(at(layout_of(s_, row.id).element_count()), 0);
    }
    for (std::int64_t row = 0; row < s_.batch * s_.query_count * s_.head_count; ++row) add_row(row);
  }

  Arrays results() const {
    Arrays results;
    for (TensorRow const& row : tensor_rows()) {
      if (!row.is_result() || !row.belongs_to(s_)) continue;
      for (float const sum : sums_[static_cast<std::size_t>(row.id)]) {
        results[row.id].push_back(round_to(layout_of(s_, row.id).dtype, sum));
      }
    }
    return results;
  }

 private:
  float input(TensorId id, std::int64_t i) const {
    return static_cast<float>(problem_.inputs[id][at(i)]);
  }
  std::vector<float>& sums(TensorId id) { return sums_[static_cast<std::size_t>(id)]; }

  std::vector<float> weights(std::int64_t row) const;
  void add_row(std::int64_t row);
  // The gradient by the point's weight.
  float add_point(std::int64_t row, std::int64_t l, std::int64_t k, std::int64_t start,
                  float weight);
  void add_fused(std::int64_t row, std::int64_t l, std::int64_t k, float const* by_coord);

  TestProblem const& problem_;
  ProblemShape const& s_;
  std::array<std::vector<float>, msda::kTensorCount> sums_;
};

std::vector<float> Float32Backward::weights(std::int64_t row) const {
  std::int64_t const K = s_.point_total();
  std::vector<float> result;
  for (std::int64_t k = 0; k < K; ++k) {
    result.push_back(input(s_.fused() ? TensorId::kLogit : TensorId::kWeight, row * K + k));
  }
  if (!s_.fused()) return result;
  float largest = -INFINITY, sum = 0;
  for (float const logit : result) largest = std::fmax(largest, logit);
  for (float& logit : result) sum += logit = std::exp(logit - largest);
  for (float& power : result) power /= sum;
  return result;
}

void Float32Backward::add_row(std::int64_t row) {
  std::int64_t const K = s_.point_total();
  std::vector<float> const weight = weights(row);
  std::vector<float> by_weight;
  std::vector<std::int64_t> const starts = s_.level_starts();
  for (std::int64_t l = 0, k = 0; l < static_cast<std::int64_t>(s_.levels.size()); ++l) {
    LevelShape const& level = s_.levels[at(l)];
    for (std::int32_t i = 0; i < level.points; ++i, ++k) {
      by_weight.push_back(add_point(row, l, k, starts[at(l)], weight[at(k)]));
    }
  }
  float mean = 0;
  for (std::int64_t k = 0; k < K; ++k) mean += weight[at(k)] * by_weight[at(k)];
  for (std::int64_t k = 0; k < K; ++k) {
    if (s_.fused()) {
      sums(TensorId::kGradLogit)[at(row * K + k)] = weight[at(k)] * (by_weight[at(k)] - mean);
    } else {
      sums(TensorId::kGradWeight)[at(row * K + k)] = by_weight[at(k)];
    }
  }
}

float Float32Backward::add_point(std::int64_t row, std::int64_t l, std::int64_t k,
                                 std::int64_t start, float weight) {
  LevelShape const& level = s_.levels[at(l)];
  std::int64_t const b = row / s_.head_count / s_.query_count, m = row % s_.head_count;
  std::int64_t const index = row * s_.point_total() + k;
  std::int64_t const size[2] = {level.width, level.height};
  if (level.width == 0 || level.height == 0) return 0;
  float position[2], fraction[2];
  std::int64_t first[2];
  for (int axis = 0; axis < 2; ++axis) {
    auto const n = static_cast<float>(size[axis]);
    float coord = input(s_.fused() ? TensorId::kOffset : TensorId::kCoord, 2 * index + axis);
    if (s_.fused()) {
      std::int64_t const anchor =
          (row / s_.head_count * static_cast<std::int64_t>(s_.levels.size()) + l) *
              s_.reference_dim +
          axis;
      float const reference = input(TensorId::kReference, anchor);
      float const step = 0.5f / static_cast<float>(level.points);
      coord = s_.reference_dim == 2
                  ? reference + coord / n
                  : reference + coord * (input(TensorId::kReference, anchor + 2) * step);
    }
    float volatile const product = coord * n;  // two roundings, whatever the compiler contracts
    position[axis] = product - 0.5f;
    if (!(position[axis] >= -1 && position[axis] < n)) return 0;
    first[axis] = static_cast<std::int64_t>(std::floor(position[axis]));
    fraction[axis] = position[axis] - std::floor(position[axis]);
  }
  float const fx = fraction[0], fy = fraction[1];
  float const scale =
      problem_.inputs[TensorId::kValueScale].empty() ? 1.0f : input(TensorId::kValueScale, m);
  float by_weight = 0, by_coord[2] = {};
  for (std::int64_t d = 0; d < s_.head_dim; ++d) {
    float const g = input(TensorId::kGradOutput, row * s_.head_dim + d);
    float v[4] = {}, sample = 0;
    for (int c = 0; c < 4; ++c) {
      std::int64_t const x = first[0] + (c & 1), y = first[1] + (c >> 1);
      if (x < 0 || y < 0 || x >= level.width || y >= level.height) continue;
      std::int64_t const border = s_.value_border;
      std::int64_t const token = start + (y + border) * (level.width + 2 * border) + x + border;
      std::int64_t const i = ((b * s_.token_count() + token) * s_.head_count + m) * s_.head_dim + d;
      float const share = (c & 1 ? fx : 1 - fx) * (c & 2 ? fy : 1 - fy);
      v[c] = input(TensorId::kValue, i);
      sample += share * v[c];
      sums(TensorId::kGradValue)[at(i)] += weight * share * scale * g;
    }
    by_weight += g * sample;
    by_coord[0] += g * ((1 - fy) * (v[1] - v[0]) + fy * (v[3] - v[2]));
    by_coord[1] += g * ((1 - fx) * (v[2] - v[0]) + fx * (v[3] - v[1]));
  }
  for (int axis = 0; axis < 2; ++axis) {
    by_coord[axis] *= scale * weight * static_cast<float>(size[axis]);
    if (!s_.fused()) sums(TensorId::kGradCoord)[at(2 * index + axis)] = by_coord[axis];
  }
  if (s_.fused()) add_fused(row, l, k, by_coord);
  return by_weight * scale;
}

void Float32Backward::add_fused(std::int64_t row, std::int64_t l, std::int64_t k,
                                float const* by_coord) {
  LevelShape const& level = s_.levels[at(l)];
  std::int64_t const index = row * s_.point_total() + k;
  std::int64_t const anchor =
      (row / s_.head_count * static_cast<std::int64_t>(s_.levels.size()) + l) * s_.reference_dim;
  float const step = 0.5f / static_cast<float>(level.points);
  std::vector<float>& by_reference = sums(TensorId::kGradReference);
  std::vector<float>& by_offset = sums(TensorId::kGradOffset);
  for (int axis = 0; axis < 2; ++axis) {
    by_reference[at(anchor + axis)] += by_coord[axis];
    if (s_.reference_dim == 2) {
      by_offset[at(2 * index + axis)] =
          by_coord[axis] / static_cast<float>(axis == 0 ? level.width : level.height);
      continue;
    }
    by_offset[at(2 * index + axis)] =
        by_coord[axis] * (input(TensorId::kReference, anchor + 2 + axis) * step);
    by_reference[at(anchor + 2 + axis)] +=
        by_coord[axis] * input(TensorId::kOffset, 2 * index + axis) * step;
  }
}

// Any numbers, and coordinates on pixel lines, away from what is no number.
TestProblem plain_problem(std::uint64_t seed) {
  Rng rng(seed);
  ProblemShape shape = random_shape(rng);
  shape.operation = MSDA_BACKWARD;
  if (shape.value_dtype == MSDA_DTYPE_F64) shape.set_dtypes(MSDA_DTYPE_F32);
  DataKind kind = random_data_kind(rng, shape);
  kind.odd_values = kind.odd_weights = kind.infinite_weights = kind.odd_grads = false;
  return fill_problem(shape, kind, rng);
}

ProblemShape one_level(std::int32_t height, std::int32_t width, std::int64_t queries) {
  ProblemShape shape;
  shape.levels = {{height, width, 1}};
  shape.query_count = queries;
  shape.head_dim = 4;
  shape.operation = MSDA_BACKWARD;
  return shape;
}

// One point on the first axis at `x`, in the middle of a pixel of the other.
TestProblem one_point(std::int32_t width, double x) {
  Rng rng(3);
  TestProblem problem = fill_problem(one_level(4, width, 1), DataKind{}, rng);
  problem.inputs[TensorId::kCoord] = {x, 0.5};
  problem.settle();
  return problem;
}

Comparison compare_gradient(TestProblem const& problem, TensorId id,
                            std::vector<double> const& actual) {
  return compare(Expectations(problem, Arithmetic::kFloat32)[id], actual);
}

}  // namespace

TEST_CASE("gradients computed in float32 are within their bounds") {
  double worst = 0;
  RandomRange const range = random_range(300);
  for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    TestProblem const problem = plain_problem(seed);
    Arrays const results = Float32Backward(problem).results();
    Expectations const expected(problem, Arithmetic::kFloat32);
    CAPTURE(seed);
    CAPTURE(problem.shape.describe());
    for (TensorRow const& row : tensor_rows()) {
      if (!row.is_result() || !row.belongs_to(problem.shape)) continue;
      CAPTURE(row.name);
      Comparison const comparison = compare(expected[row.id], results[row.id]);
      CHECK(comparison.failure == "");
      worst = std::max(worst, comparison.worst_share);
      for (double const bound : expected[row.id].bound) CHECK(std::isfinite(bound));
    }
  }
  fmt::print("[bounds ] gradients in float32: largest error {:.2f} of the bound\n", worst);
}

TEST_CASE("a contribution that is missing from a gradient is seen") {
  // Many queries whose points all reach the same four pixels: one of them is left out.
  Rng rng(7);
  TestProblem problem = fill_problem(one_level(2, 2, 200), DataKind{}, rng);
  for (double& coord : problem.inputs[TensorId::kCoord]) coord = 0.3 + 0.4 * (coord + 0.25) / 1.5;
  problem.settle();
  Arrays const all = Float32Backward(problem).results();
  TestProblem without = problem;
  without.inputs[TensorId::kWeight][100] = 0;
  Arrays const some = Float32Backward(without).results();
  CHECK(compare_gradient(problem, TensorId::kGradValue, all[TensorId::kGradValue]).failure == "");
  CHECK(compare_gradient(problem, TensorId::kGradValue, some[TensorId::kGradValue]).failure != "");
  CHECK(compare_gradient(problem, TensorId::kGradCoord, some[TensorId::kGradCoord]).failure != "");
}

// As large as a bound of Q max(K, D) roundings would let pass.
TEST_CASE("an error that the number of queries does not excuse is seen in every gradient") {
  for (std::int32_t const reference_dim : {0, 2, 4}) {
    Rng rng(11);
    ProblemShape shape = one_level(5, 6, 300);
    shape.levels.push_back({3, 2, 2});
    shape.head_dim = 32;
    shape.reference_dim = reference_dim;
    DataKind inside;
    inside.low = 0.2;
    inside.high = 0.8;
    TestProblem const problem = fill_problem(shape, inside, rng);
    Arrays const right = Float32Backward(problem).results();
    for (TensorRow const& row : tensor_rows()) {
      if (!row.is_result() || !row.belongs_to(shape)) continue;
      CAPTURE(row.name);
      std::vector<double> actual = right[row.id];
      CHECK(compare_gradient(problem, row.id, actual).failure == "");
      auto const largest = std::max_element(actual.begin(), actual.end());
      *largest *= 1 + 4000 * 0x1p-24;
      CHECK(compare_gradient(problem, row.id, actual).failure != "");
    }
  }
}

TEST_CASE("on a pixel line that float32 hits exactly only the right-hand derivative passes") {
  TestProblem const problem = one_point(8, 2.5 / 8);
  std::vector<double> const right = Float32Backward(problem).results()[TensorId::kGradCoord];
  std::vector<double> const left =
      Float32Backward(one_point(8, 2.499 / 8)).results()[TensorId::kGradCoord];
  CHECK(compare_gradient(problem, TensorId::kGradCoord, right).failure == "");
  CHECK(compare_gradient(problem, TensorId::kGradCoord, {left[0], right[1]}).failure != "");
}

TEST_CASE("on a pixel line that float32 may miss both derivatives pass and nothing beyond") {
  TestProblem const problem = one_point(7, 2.5 / 7);
  std::vector<double> const right =
      Float32Backward(one_point(7, 2.5001 / 7)).results()[TensorId::kGradCoord];
  std::vector<double> const left =
      Float32Backward(one_point(7, 2.4999 / 7)).results()[TensorId::kGradCoord];
  double const low = std::min(left[0], right[0]), high = std::max(left[0], right[0]);
  double const gap = high - low, y = Float32Backward(problem).results()[TensorId::kGradCoord][1];
  REQUIRE(gap > 0.1);
  auto const failure = [&](double x) {
    return compare_gradient(problem, TensorId::kGradCoord, {x, y}).failure;
  };
  CHECK(failure(low) == "");
  CHECK(failure(high) == "");
  CHECK(failure(low - 0.01 * gap) != "");
  CHECK(failure(high + 0.01 * gap) != "");
  CHECK(failure(std::nan("")) != "");
  CHECK(failure(INFINITY) != "");
}

// Fused points on one level of 17 x 18 pixels. The first one, whose weight is no number, lies on
// the pixel line x = 7 exactly, at y = 5.67; rounding takes it below the line in float64 and beyond
// it in float32.
TestProblem point_on_a_line(std::int64_t queries, std::int64_t head_dim) {
  Rng rng(1);
  ProblemShape shape = one_level(17, 18, queries);
  shape.head_dim = head_dim;
  shape.reference_dim = 2;
  shape.coord_dtype = MSDA_DTYPE_F16;
  TestProblem problem = fill_problem(shape, DataKind{}, rng);
  auto const set = [&problem](TensorId id, std::vector<double> const& numbers) {
    std::ranges::copy(numbers, problem.inputs[id].begin());
  };
  set(TensorId::kReference, {0.6162109375, 0.5625});
  set(TensorId::kOffset, {-3.591796875, -3.388671875});
  set(TensorId::kLogit, {NAN});
  problem.settle();
  return problem;
}

TEST_CASE("what is no number may miss a pixel where rounding chooses the side of a line") {
  TestProblem const problem = point_on_a_line(50, 400);
  std::vector<double> const in_float32 = Float32Backward(problem).results()[TensorId::kGradValue];
  std::vector<double> const oracle = run_oracle(problem).values[TensorId::kGradValue];
  Expected const expected = Expectations(problem, Arithmetic::kFloat32)[TensorId::kGradValue];
  int lost = 0, gained = 0, undecided = 0;
  for (std::size_t i = 0; i < oracle.size(); ++i) {
    lost += std::isnan(oracle[i]) && !std::isnan(in_float32[i]) ? 1 : 0;
    gained += !std::isnan(oracle[i]) && std::isnan(in_float32[i]) ? 1 : 0;
    undecided += expected.kinds[i] == (kind_of(NAN) | kind_of(0)) ? 1 : 0;
  }
  CHECK(lost > 0);
  CHECK(compare(expected, in_float32).failure == "");
  CHECK(compare(expected, oracle).failure == "");
  // Two pixels below the line and two above it, of one head.
  CHECK(lost <= 2 * problem.shape.head_dim);
  CHECK(gained <= 2 * problem.shape.head_dim);
  CHECK(undecided <= 4 * problem.shape.head_dim);
  // Any other lost or spread NaN fails.
  int seen = 0, others = 0;
  for (std::size_t i = 0; i < oracle.size(); ++i) {
    if (expected.kinds[i] == (kind_of(NAN) | kind_of(0))) continue;
    double const wrong = std::isnan(in_float32[i]) ? 0.0 : NAN;
    Expected const element{expected.dtype,     {expected.exact[i]}, {expected.bound[i]}, {}, {},
                           {expected.kinds[i]}};
    ++others;
    seen += compare(element, {wrong}).failure.empty() ? 0 : 1;
  }
  CHECK(others > 100'000);
  CHECK(seen == others);
}

// The point alone.
TEST_CASE("a lost NaN fails but where the point's coordinates allow it") {
  TestProblem problem = point_on_a_line(1, 1);
  auto const failure_with = [&](std::vector<int> const& columns) {
    std::vector<double> result(17 * 18, 0.0);
    for (int const column : columns)
      result[5 * 18 + at(column)] = result[6 * 18 + at(column)] = NAN;
    return compare_gradient(problem, TensorId::kGradValue, result).failure;
  };
  CHECK(failure_with({6, 7}) == "");
  CHECK(failure_with({7, 8}) == "");
  CHECK(failure_with({6}) != "");
  CHECK(failure_with({8}) != "");
  CHECK(failure_with({}) != "");
  CHECK(failure_with({7, 8, 9}) != "");
  CHECK(failure_with({5, 6, 7}) != "");
  std::vector<double> infinite(17 * 18, 0.0);
  for (int const row : {5, 6})
    infinite[at(row * 18 + 6)] = INFINITY, infinite[at(row * 18 + 7)] = NAN;
  CHECK(compare_gradient(problem, TensorId::kGradValue, infinite).failure != "");
  // Off the line by what float32 tells apart, nothing is left to choose.
  problem.inputs[TensorId::kOffset][0] = -3.59375;
  CHECK(failure_with({6, 7}) == "");
  CHECK(failure_with({7, 8}) != "");
  CHECK(failure_with({7}) != "");
}

TEST_CASE("between derivatives a NaN stays one") {
  double const nan = std::nan("");
  Expected const expected{MSDA_DTYPE_F64, {1, nan}, {0.1, 0.1}, {1, 1}, {2, 2}};
  CHECK(compare(expected, {1, nan}).failure == "");
  CHECK(compare(expected, {3, nan}).failure == "");
  CHECK(compare(expected, {3.2, nan}).failure != "");
  CHECK(compare(expected, {-0.2, nan}).failure != "");
  CHECK(compare(expected, {nan, nan}).failure != "");
  CHECK(compare(expected, {1, 1}).failure != "");
}
