// Results have the same bits whatever the threads, the run, and what else is in the batch.

#include "support/backward_shape.h"
#include "support/case_file.h"
#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/kernel_cases.h"
#include "support/random_problem.h"
#include "support/repeated_runs.h"
#include "support/runner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace msda::test;

namespace {

// Enough queries and heads for several chunks of work.
const std::vector<const char*> kCases = {
    "encoder", "decoder",       "bev_heads", "odd_coords", "odd_channels", "padded_rows", "dfine",
    "fast",    "fast_one_head", "fast_f8",   "kept_some",  "kept_fast",    "softmax_long"};

// What is left of a tensor [B][Q][M][inner] when one batch item and some queries are kept.
template <typename Number>
std::vector<Number> rows_of(ProblemShape const& shape, std::vector<Number> const& all,
                            std::int64_t batch, std::vector<std::int64_t> const& queries) {
  std::vector<Number> kept;
  auto const row = static_cast<std::int64_t>(all.size()) / (shape.batch * shape.query_count);
  for (std::int64_t const query : queries) {
    auto const begin = all.begin() + (batch * shape.query_count + query) * row;
    kept.insert(kept.end(), begin, begin + row);
  }
  return kept;
}

// The problem of one batch item and the given queries alone, packed.
TestProblem restrict_to(TestProblem const& problem, std::int64_t batch,
                        std::vector<std::int64_t> const& queries) {
  TestProblem part = problem;
  part.shape.batch = 1;
  part.shape.query_count = static_cast<std::int64_t>(queries.size());
  part.shape.query_hw.clear();
  part.shape.value_strides = part.shape.coord_strides = {0, 0, 0};
  part.shape.weight_strides = part.shape.output_strides = {0, 0, 0};
  for (TensorRow const& row : tensor_rows()) {
    if (row.is_result() || problem.inputs[row.id].empty() || row.id == TensorId::kValueScale)
      continue;
    std::vector<double> const& all = problem.inputs[row.id];
    if (row.id == TensorId::kValue) {
      auto const item = static_cast<std::int64_t>(all.size()) / problem.shape.batch;
      part.inputs[row.id].assign(all.begin() + batch * item, all.begin() + (batch + 1) * item);
    } else {
      part.inputs[row.id] = rows_of(problem.shape, all, batch, queries);
    }
  }
  return part;
}

void check_addresses(TestHandle const& handle) {
  for (const char* const name :
       {"decoder", "odd_coords", "fast", "softmax_long_one", "autocast_f16"}) {
    for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
      for (ProblemShape shape : corpus_case(name).shapes()) {
        shape.operation = operation;
        TestProblem const problem = corpus_case(name).make(shape);
        for (std::string const& id : accepting_kernels(handle, shape)) {
          if (!is_deterministic(id)) continue;
          CAPTURE(id);
          PlanResult const plan = make_plan(handle, shape, id);
          // The float64 kernel is slow and has no reason to differ: fewer runs for it.
          int const runs = handle.on_gpu() ? gpu_repeats(100) : id.starts_with("ref.") ? 10 : 100;
          CHECK(differing_runs(plan.plan.get(), problem, runs) == 0);
        }
      }
    }
  }
}

void check_invariance(TestHandle const& handle) {
  for_kernels_and_cases(handle, kCases, [&](TestProblem const& problem, std::string const& id) {
    ProblemShape const& shape = problem.shape;
    if (shape.backward()) return;
    RunResult const whole = run(handle, problem, id);
    REQUIRE(whole.failure == "");
    std::int64_t const last_batch = shape.batch - 1, last = shape.query_count - 1;
    // Alone, first, last, and among others in another order.
    for (std::vector<std::int64_t> const& queries :
         {std::vector<std::int64_t>{last}, {0}, {last, 0, last / 2}, {1, 2, 3, 4, last, 5, 6}}) {
      RunResult const part = run(handle, restrict_to(problem, last_batch, queries), id);
      REQUIRE(part.failure == "");
      constexpr auto kOutput = static_cast<std::size_t>(TensorId::kOutput);
      CHECK(part.bits[kOutput] == rows_of(shape, whole.bits[kOutput], last_batch, queries));
    }
  });
}

// Backward: a batch item has the same gradients alone.
void check_batch_item(TestHandle const& handle, ProblemShape const& shape) {
  std::int64_t const batch = shape.batch;
  Rng rng(3);
  TestProblem const problem = fill_problem(shape, DataKind{}, rng);
  std::vector<std::int64_t> queries(static_cast<std::size_t>(shape.query_count));
  std::iota(queries.begin(), queries.end(), 0);
  for (std::string const& id : accepting_kernels(handle, shape)) {
    if (!is_deterministic(id)) continue;
    CAPTURE(shape.describe());
    CAPTURE(id);
    RunResult const whole = run(handle, problem, id);
    REQUIRE(whole.failure == "");
    RunResult const alone = run(handle, restrict_to(problem, batch - 1, queries), id);
    REQUIRE(alone.failure == "");
    for (TensorId const gradient :
         {TensorId::kGradValue, TensorId::kGradCoord, TensorId::kGradWeight, TensorId::kGradOffset,
          TensorId::kGradLogit, TensorId::kGradReference}) {
      std::vector<std::uint64_t> const& of_item = alone.bits[static_cast<std::size_t>(gradient)];
      std::vector<std::uint64_t> const& of_all = whole.bits[static_cast<std::size_t>(gradient)];
      CHECK(std::equal(of_item.rbegin(), of_item.rend(), of_all.rbegin()));
    }
  }
}

// Every other query gets logits far from 0, which the softmax of its rows has to shift, and a
// gradient of its output of 0: the others' results have the same bits, and grad_value.
void check_beside_steep_queries(TestHandle const& handle, ProblemShape const& shape) {
  Rng rng(5);
  TestProblem problem = fill_problem(shape, DataKind{}, rng);
  double number = 0;
  for (double& logit : problem.inputs[TensorId::kLogit]) {
    logit = std::fmod(number, 5.0) - 2;
    number += 0.37;
  }
  auto const of_steep_queries = [&](TensorId id, auto change) {
    std::vector<double>& numbers = problem.inputs[id];
    auto const row = static_cast<std::int64_t>(numbers.size()) / (shape.batch * shape.query_count);
    for (std::int64_t query = 1; query < shape.batch * shape.query_count; query += 2) {
      for (std::int64_t i = query * row; i < (query + 1) * row; ++i)
        change(numbers[static_cast<std::size_t>(i)]);
    }
  };
  if (shape.backward()) of_steep_queries(TensorId::kGradOutput, [](double& x) { x = 0; });
  TestProblem const even = problem;
  of_steep_queries(TensorId::kLogit, [](double& x) { x += 24; });
  std::vector<std::int64_t> others;
  for (std::int64_t query = 0; query < shape.query_count; query += 2) others.push_back(query);
  for (std::string const& id : accepting_kernels(handle, shape)) {
    if (!is_deterministic(id)) continue;
    CAPTURE(shape.describe());
    CAPTURE(id);
    RunResult const expected = run(handle, even, id), result = run(handle, problem, id);
    REQUIRE(expected.failure == "");
    REQUIRE(result.failure == "");
    for (TensorId const tensor : {TensorId::kOutput, TensorId::kGradOffset, TensorId::kGradLogit}) {
      auto const& wanted = expected.bits[static_cast<std::size_t>(tensor)];
      auto const& found = result.bits[static_cast<std::size_t>(tensor)];
      for (std::int64_t batch = 0; batch < shape.batch; ++batch) {
        CHECK(rows_of(shape, found, batch, others) == rows_of(shape, wanted, batch, others));
      }
    }
    constexpr auto kGradValue = static_cast<std::size_t>(TensorId::kGradValue);
    CHECK(result.bits[kGradValue] == expected.bits[kGradValue]);
  }
}

void check_beside_steep_queries(TestHandle const& handle) {
  for (msda_dtype const dtype : {MSDA_DTYPE_F16, MSDA_DTYPE_F32}) {
    for (std::int32_t const points : {4, 8}) {
      ProblemShape shape = backward_shape(
          {{{9, 8, points}, {5, 4, points}, {3, 4, points}, {2, 2, points}}, 1, 10, 8, 32}, dtype,
          2);
      check_beside_steep_queries(handle, shape);
      shape.operation = MSDA_FORWARD;
      check_beside_steep_queries(handle, shape);
      shape.math_mode = MSDA_MATH_FAST;
      if (dtype == MSDA_DTYPE_F16) check_beside_steep_queries(handle, shape);
    }
  }
}

// An item has so many points that the chunks in which the GPU's kernels bin them are of another
// size when it is alone, so that no order but that of the points gives the same sums.
ProblemShape many_points(std::int64_t points_of_item, std::int64_t batch) {
  ProblemShape shape;
  shape.levels = {{12, 14, 3}, {6, 7, 1}};
  shape.batch = batch;
  shape.head_count = 2;
  shape.query_count = points_of_item / (shape.head_count * shape.point_total());
  shape.head_dim = 8;
  shape.operation = MSDA_BACKWARD;
  return shape;
}

// An item has so few rows alone that `small` divides their points among slots.
ProblemShape few_rows(std::int32_t reference_dim) {
  std::int64_t const batch = kGpuIsSimulated ? 7 : 300;
  return backward_shape({{{9, 8, 8}, {5, 4, 5}}, batch, 9, 2, 32}, MSDA_DTYPE_F16, reference_dim);
}

// A small problem, whose sums the simd family forms in grad_value where an item is alone, and in a
// buffer of so many.
ProblemShape many_items() {
  ProblemShape shape;
  shape.levels = {{20, 24, 4}, {7, 23, 2}};
  shape.batch = 15;
  shape.head_count = 8;
  shape.query_count = 20;
  shape.head_dim = 32;
  shape.operation = MSDA_BACKWARD;
  return shape;
}

void check_hint(TestHandle const& handle) {
  for_kernels_and_cases(handle, kCases, [&](TestProblem const& problem, std::string const& id) {
    if (!is_deterministic(id)) return;
    RunResult const expected = run(handle, problem, id);
    REQUIRE(expected.failure == "");
    auto const count = static_cast<std::int32_t>(problem.shape.query_count);
    // The float64 kernel takes the hint no further than the checks: one is enough for it.
    bool const is_slow = id.starts_with("ref.");
    for (std::vector<std::int32_t> const& grids : {std::vector<std::int32_t>{1, count},
                                                   {count, 1},
                                                   {2, (count - 1) / 2, 1, 2 - count % 2}}) {
      if (is_slow && grids.size() == 2) continue;
      TestProblem hinted = problem;
      hinted.shape.query_hw = grids;
      RunResult const result = run(handle, hinted, id);
      REQUIRE(result.failure == "");
      CHECK(result.same_bits(expected));
    }
  });
}

void check_partial(TestHandle const& handle) {
  for (const char* const name : {"dfine", "decoder", "bev_heads"}) {
    ProblemShape shape = corpus_case(name).shape;
    shape.operation = MSDA_BACKWARD;
    TestProblem const problem = corpus_case(name).make(shape);
    for (std::string const& id : accepting_kernels(handle, shape)) {
      CAPTURE(id);
      PlanResult const plan = make_plan(handle, shape, id);
      RunResult const all = run_plan(plan.plan.get(), problem, 0);
      REQUIRE(all.failure == "");
      check_gradient_subsets(plan.plan.get(), problem, id, all);
    }
  }
}

}  // namespace

TEST_CASE("the same bits with 1 2 3 and 16 threads") {
  TestHandle const one(1);
  TestHandle const others[] = {TestHandle(2), TestHandle(3), TestHandle(16)};
  for_kernels_and_cases(one, kCases, [&](TestProblem const& problem, std::string const& id) {
    RunResult const expected = run(one, problem, id);
    REQUIRE(expected.failure == "");
    for (TestHandle const& handle : others) {
      RunResult const result = run(handle, problem, id);
      REQUIRE(result.failure == "");
      CHECK(result.same_bits(expected));
    }
  });
}

TEST_CASE("the same bits in runs at different addresses") { check_addresses(TestHandle(3)); }
TEST_CASE("the same bits in runs at different addresses, on the GPU" * needs_gpu()) {
  check_addresses(TestHandle(gpu_options()));
}

TEST_CASE("a query has the same bits whatever else is computed with it") {
  check_invariance(TestHandle(2));
}
TEST_CASE("a query has the same bits whatever else is computed with it, on the GPU" * needs_gpu()) {
  check_invariance(TestHandle(gpu_options()));
}

TEST_CASE("a fused query has the same bits beside one of steep logits") {
  check_beside_steep_queries(TestHandle(2));
}
TEST_CASE("a fused query has the same bits beside one of steep logits, on the GPU" * needs_gpu()) {
  check_beside_steep_queries(TestHandle(gpu_options()));
}

TEST_CASE("the same bits backward of a batch item alone") {
  check_batch_item(TestHandle(2), many_points(1600, 3));
  check_batch_item(TestHandle(2), many_items());
}
TEST_CASE("the same bits backward of a batch item alone, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  // `sorted` has chunks of 512 points for each 1024 that an SM has: one of them alone, two of four.
  std::int64_t const points = 600 * handle.sm_count();
  check_batch_item(handle, many_points(points, 4));
  for (std::int32_t const reference_dim : {0, 2, 4}) {
    check_batch_item(handle, few_rows(reference_dim));
  }
}

TEST_CASE("query_hw changes no bit") { check_hint(TestHandle(2)); }
TEST_CASE("query_hw changes no bit, on the GPU" * needs_gpu()) {
  check_hint(TestHandle(gpu_options()));
}

TEST_CASE("gradients not asked for change no bit of the others") { check_partial(TestHandle(2)); }
TEST_CASE("gradients not asked for change no bit of the others, on the GPU" * needs_gpu()) {
  check_partial(TestHandle(gpu_options()));
}
