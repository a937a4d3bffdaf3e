// Backward where the corpus does not go, every kernel that takes the problem: rows of grad_output
// and coordinates that are no numbers, many points on one pixel, rows of thousands of points,
// levels of many windows, and the same bits of many runs and under workspace limits.

#include "support/case_file.h"
#include "support/environment.h"
#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/kernel_cases.h"
#include "support/random_problem.h"
#include "support/repeated_runs.h"
#include "support/runner.h"
#include "support/tolerance.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <string>
#include <utility>

using namespace msda::test;

namespace {

ProblemShape backward_shape(std::vector<LevelShape> levels, msda_dtype dtype) {
  ProblemShape shape;
  shape.levels = std::move(levels);
  shape.head_count = 2;
  shape.head_dim = 8;
  shape.set_dtypes(dtype);
  shape.operation = MSDA_BACKWARD;
  return shape;
}

// Some rows of grad_output hold a number that is none, one or in every channel.
void spoil_rows(TestProblem& problem, Rng& rng) {
  std::vector<double>& grad = problem.inputs[TensorId::kGradOutput];
  auto const D = static_cast<std::size_t>(problem.shape.head_dim);
  for (std::size_t row = 0; row + D <= grad.size(); row += D) {
    if (!rng.chance(0.1)) continue;
    double const odd =
        rng.pick({std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                  -std::numeric_limits<double>::infinity()});
    bool const all = rng.chance(0.3);
    auto const one = static_cast<std::size_t>(rng.integer(0, problem.shape.head_dim - 1));
    for (std::size_t d = 0; d < D; ++d) {
      if (all || d == one) grad[row + d] = odd;
    }
  }
}

void check_spoiled_rows(TestHandle const& handle) {
  NextInShard next_in_shard;
  for (const char* const name : {"inside", "far_outside", "odd_coords", "bordered", "padded_rows",
                                 "odd_channels", "decoder", "unused_level"}) {
    CAPTURE(name);
    for (ProblemShape shape : corpus_case(name).shapes()) {
      if (!next_in_shard()) continue;
      shape.operation = MSDA_BACKWARD;
      TestProblem problem = corpus_case(name).make(shape);
      Rng rng(11);
      spoil_rows(problem, rng);
      check_all_kernels(handle, problem);
    }
  }
}

// A sampled problem of which every second point, from the first on, is nowhere: a coordinate is no
// number, or so far away that all corners are outside.
TestProblem problem_with_points_nowhere(std::int64_t head_dim, msda_dtype dtype) {
  ProblemShape shape = backward_shape({{9, 8, 4}, {4, 3, 2}}, dtype);
  shape.query_count = 40;
  shape.head_dim = head_dim;
  DataKind kind;
  kind.low = 0.001;
  kind.high = 0.999;
  Rng rng(static_cast<std::uint64_t>(head_dim));
  TestProblem problem = fill_problem(shape, kind, rng);
  std::vector<double>& coord = problem.inputs[TensorId::kCoord];
  double const infinity = std::numeric_limits<double>::infinity();
  for (std::size_t point = 0; 2 * point < coord.size(); point += 2) {
    double& moved = coord[2 * point + static_cast<std::size_t>(rng.integer(0, 1))];
    moved = rng.pick({std::numeric_limits<double>::quiet_NaN(), infinity, -infinity, 1e38, -1e38,
                      1e9, -1e9, 2.5, -1.5});
  }
  problem.settle();
  return problem;
}

void check_points_nowhere(TestHandle const& handle) {
  for (msda_dtype const dtype : {MSDA_DTYPE_F64, MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16}) {
    for (std::int64_t const head_dim : {3, 8, 32, 72}) {
      TestProblem const problem = problem_with_points_nowhere(head_dim, dtype);
      TestProblem without = problem;  // those points weigh nothing: the others' values are the same
      std::vector<double>& weight = without.inputs[TensorId::kWeight];
      for (std::size_t point = 0; point < weight.size(); point += 2) weight[point] = 0;
      CAPTURE(problem.shape.describe());
      ExpectationsByArithmetic expectations(without);
      for (std::string const& id : accepting_kernels(handle, problem.shape)) {
        CAPTURE(id);
        RunResult const result = run(handle, problem, id, 3);
        REQUIRE(result.failure == "");
        CHECK(compare(expectations[arithmetic_of(id)][TensorId::kGradValue],
                      result.values[TensorId::kGradValue])
                  .failure == "");
        std::vector<double> const& by_coord = result.values[TensorId::kGradCoord];
        std::vector<double> const& by_weight = result.values[TensorId::kGradWeight];
        std::size_t zeros = 0, others = 0;
        for (std::size_t point = 0; point < by_weight.size(); ++point) {
          bool const is_zero =
              by_weight[point] == 0 && by_coord[2 * point] == 0 && by_coord[2 * point + 1] == 0;
          (point % 2 == 0 ? zeros : others) += is_zero ? 1 : 0;
        }
        CHECK(zeros == by_weight.size() / 2);
        CHECK(others == 0);
      }
    }
  }
}

void check_one_pixel(TestHandle const& handle) {
  struct Case {
    msda_dtype value_dtype, grad_value_dtype;
    double weight;  // at most: the sums of weights up to 1 exceed float16
  };
  std::vector<Case> cases = {{MSDA_DTYPE_F32, MSDA_DTYPE_F32, 1},
                             {MSDA_DTYPE_F16, MSDA_DTYPE_F16, 1e-5}};
  if (!handle.on_gpu() || !kGpuIsSimulated) {  // where each takes seconds
    cases.insert(cases.end(),
                 {{MSDA_DTYPE_F16, MSDA_DTYPE_F32, 1}, {MSDA_DTYPE_BF16, MSDA_DTYPE_F32, 1}});
  }
  for (auto const& [dtype, grad_value_dtype, weight] : cases) {
    ProblemShape shape = backward_shape({{5, 4, 4}}, dtype);
    shape.query_count = 25000;
    shape.head_count = 1;
    shape.grad_value_dtype = grad_value_dtype;
    Rng rng(static_cast<std::uint64_t>(dtype));
    TestProblem problem = fill_problem(shape, DataKind{}, rng);
    std::vector<double>& coord = problem.inputs[TensorId::kCoord];
    for (std::size_t i = 0; i < coord.size(); i += 2) {  // right and below the middle of (2, 1)
      coord[i] = (2.5 + rng.uniform(0.01, 0.4)) / 4;
      coord[i + 1] = (1.5 + rng.uniform(0.01, 0.4)) / 5;
    }
    for (double& g : problem.inputs[TensorId::kGradOutput]) g = rng.uniform(0, 6e4);
    for (double& w : problem.inputs[TensorId::kWeight]) w = rng.uniform(0, weight);
    problem.settle();
    check_all_kernels(handle, problem);
  }
}

// The most that sizes of the 20 shapes are.
struct Sizes {
  std::int64_t side, queries, channels;
};
TestProblem random_backward_problem(std::uint64_t seed, Sizes const& most) {
  Rng rng(seed);
  auto const side = [&](std::int64_t limit) {
    return static_cast<std::int32_t>(rng.integer(1, limit));
  };
  std::int64_t const half = most.side / 2;
  ProblemShape shape = backward_shape(
      {{side(most.side), side(most.side), 4}, {side(half), side(half), 3}},
      rng.pick({MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16, MSDA_DTYPE_F8_E4M3}));
  shape.batch = rng.integer(1, 3);
  shape.head_count = rng.integer(1, 5);
  shape.head_dim = rng.integer(1, most.channels);
  shape.query_count = rng.integer(1, most.queries);
  shape.reference_dim = static_cast<std::int32_t>(rng.pick({0, 2, 4}));
  if (seed % 2 == 0) {  // what all families take
    shape.head_dim = (shape.head_dim + 7) / 8 * 8;
    if (shape.value_dtype == MSDA_DTYPE_F8_E4M3) shape.set_dtypes(MSDA_DTYPE_F16);
  }
  return fill_problem(shape, DataKind{}, rng);
}

// The bytes that a kernel needs at least, as it says where its limit is 1.
std::size_t least_workspace(TestHandle const& handle, ProblemShape const& shape,
                            std::string const& id) {
  PlanResult const refused = make_plan(handle, shape, id, 0, 1);
  CHECK(refused.status == MSDA_ERROR_UNSUPPORTED);
  std::string const start = "msda_plan_create: plan_options.kernel_id is '" + id +
                            "': the kernel needs more workspace than workspace_limit_bytes: ";
  CAPTURE(refused.message);
  REQUIRE(refused.message.starts_with(start));
  std::string const numbers = refused.message.substr(start.size());
  std::size_t const least = std::stoull(numbers);
  CHECK(numbers == std::to_string(least) + " bytes, not 1");
  return least;
}

void check_limits(TestHandle const& handle, TestProblem const& problem, std::string const& id) {
  ProblemShape const& shape = problem.shape;
  CAPTURE(shape.describe());
  CAPTURE(id);
  PlanResult const whole = make_plan(handle, shape, id);
  RunResult const expected = run_plan(whole.plan.get(), problem, 1);
  REQUIRE(expected.failure == "");
  std::size_t const full = plan_info(whole.plan.get()).workspace_bytes;
  std::size_t const least = least_workspace(handle, shape, id);
  CHECK(least < full / 3);
  for (std::size_t const limit :
       {least, least + full / 20, full / 4, full / 3, full / 2, full * 3 / 4, full - 1, full}) {
    CAPTURE(limit);
    PlanResult const limited = make_plan(handle, shape, "", 0, limit);  // the library's choice
    REQUIRE(limited.message == "");
    msda_plan_info const info = plan_info(limited.plan.get());
    CHECK(info.kernel_id == id);
    CHECK(info.workspace_bytes <= limit);
    CHECK((limit == full) == (info.workspace_bytes == full));
    CHECK(run_plan(limited.plan.get(), problem, 2).same_bits(expected));
    if (limit == least) check_gradient_subsets(limited.plan.get(), problem, id, expected);
  }
  CHECK(make_plan(handle, shape, id, 0, least - 1).status == MSDA_ERROR_UNSUPPORTED);
}

}  // namespace

TEST_CASE("rows of grad_output that are no numbers reach what the formula says") {
  check_spoiled_rows(TestHandle(3));
}
TEST_CASE("rows of grad_output that are no numbers reach what the formula says, on the GPU" *
          needs_gpu()) {
  check_spoiled_rows(TestHandle(gpu_options()));
}

TEST_CASE("points that are nowhere get zero gradients and give none") {
  check_points_nowhere(TestHandle(2));
}
TEST_CASE("points that are nowhere get zero gradients and give none, on the GPU" * needs_gpu()) {
  check_points_nowhere(TestHandle(gpu_options()));
}

TEST_CASE("1e5 points on one pixel, gradients up to 6e4") { check_one_pixel(TestHandle(2)); }
TEST_CASE("1e5 points on one pixel, gradients up to 6e4, on the GPU" * needs_gpu()) {
  check_one_pixel(TestHandle(gpu_options()));
}

TEST_CASE("backward of rows that are longer than what is sorted at a time") {
  TestHandle const handle(2);
  for (std::int32_t const reference_dim : {0, 2, 4}) {
    ProblemShape shape = backward_shape({{9, 7, 3000}, {4, 4, 1}, {6, 5, 2100}}, MSDA_DTYPE_F32);
    shape.query_count = 3;
    shape.reference_dim = reference_dim;
    Rng rng(static_cast<std::uint64_t>(reference_dim));
    check_all_kernels(handle, fill_problem(shape, DataKind{}, rng));
  }
}

TEST_CASE("backward of levels of many windows") {
  TestHandle const handle(3);
  NextInShard next_in_shard;
  for (msda_dtype const dtype :
       {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16, MSDA_DTYPE_F8_E4M3}) {
    for (std::int32_t const border : {0, 1}) {
      for (std::int64_t const head_dim : {5, 32}) {
        if (!next_in_shard()) continue;
        // Bands that end in a row of pixels, in one half outside, and one row before. The first
        // level has fewer points than pixels.
        ProblemShape shape =
            backward_shape({{70, 90, 4}, {63, 31, 2}, {64, 32, 2}, {33, 65, 3}}, dtype);
        shape.query_count = 300;
        shape.head_dim = head_dim;
        shape.value_border = border;
        Rng rng(static_cast<std::uint64_t>(dtype));
        TestProblem problem = fill_problem(shape, DataKind{}, rng);
        check_all_kernels(handle, problem);
        spoil_rows(problem, rng);
        check_all_kernels(handle, problem);
      }
    }
  }
}

// Small problems, whose sums the simd family forms strip by strip, but for values of 8 bits.
std::vector<ProblemShape> strip_shapes() {
  std::vector<ProblemShape> shapes;
  struct Case {
    std::int64_t batch, heads, head_dim, queries;
    std::vector<LevelShape> levels;
  };
  for (Case const& c : std::vector<Case>{
           // Strips of 8 rows that end with the map, one row before and one behind; two chunks.
           {1, 4, 16, 500, {{64, 32, 4}, {63, 31, 2}, {65, 33, 3}}},
           {2, 6, 48, 90, {{17, 40, 4}, {1, 1, 1}, {1, 300, 2}, {300, 1, 2}}},
           {1, 17, 32, 40, {{20, 30, 4}, {9, 12, 4}}},             // more heads than take turns
           {1, 4, 16, 301, {{9, 7, 2}}},                           // rows of two logits
           {3, 8, 96, 30, {{2, 400, 4}}},                          // strips of one row
           {15, 8, 32, 20, {{20, 24, 4}, {7, 23, 2}}},             // more than stays in a cache
           {1, 5, 16, 3, {{9, 7, 3000}, {4, 4, 1}, {6, 5, 2100}}}  // two chunks a row
       }) {
    for (std::int32_t const reference_dim : {0, 2, 4}) {
      constexpr msda_dtype kDtypes[] = {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16,
                                        MSDA_DTYPE_F8_E4M3};
      ProblemShape shape = backward_shape(c.levels, kDtypes[shapes.size() % 4]);
      if (shapes.size() % 5 == 2) shape.grad_value_dtype = MSDA_DTYPE_F32;
      shape.batch = c.batch;
      shape.head_count = c.heads;
      shape.head_dim = c.head_dim;
      shape.query_count = c.queries;
      shape.reference_dim = reference_dim;
      shape.value_border = reference_dim == 2;
      if (shapes.size() % 7 > 4) shape.sampling_mode = MSDA_SAMPLING_NEAREST;
      if (shapes.size() % 5 == 1) {  // heads one behind the other
        std::int64_t const head = shape.token_count() * c.head_dim;
        shape.value_strides = {c.heads * head, c.head_dim, head};
      }
      shapes.push_back(shape);
    }
  }
  return shapes;
}

TEST_CASE("backward of small problems, whole and with inputs that are no numbers") {
  TestHandle const handle(3);
  NextInShard next_in_shard;
  std::uint64_t seed = 0;
  for (ProblemShape const& shape : strip_shapes()) {
    Rng rng(++seed);
    if (!next_in_shard()) continue;
    TestProblem problem = fill_problem(shape, DataKind{}, rng);
    check_all_kernels(handle, problem);
    spoil_rows(problem, rng);
    check_all_kernels(handle, problem);
    DataKind odd;
    odd.odd_coords = odd.odd_weights = odd.odd_values = true;
    odd.infinite_weights = shape.reference_dim == 0;
    check_all_kernels(handle, fill_problem(shape, odd, rng));
  }
}

TEST_CASE("the same bits backward of small problems with 1 2 3 and 7 threads") {
  TestHandle const one(1);
  TestHandle const others[] = {TestHandle(2), TestHandle(3), TestHandle(7)};
  std::uint64_t seed = 0;
  for (ProblemShape const& shape : strip_shapes()) {
    CAPTURE(shape.describe());
    Rng rng(++seed);
    TestProblem const problem = fill_problem(shape, DataKind{}, rng);
    for (std::string const& id : accepting_kernels(one, shape)) {
      if (!id.starts_with("simd.")) continue;
      RunResult const expected = run(one, problem, id);
      REQUIRE(expected.failure == "");
      for (TestHandle const& handle : others) CHECK(run(handle, problem, id).same_bits(expected));
    }
  }
}

TEST_CASE("simd backward needs at most 24 bytes a point, 8 a value and a window a thread") {
  constexpr std::int32_t kThreads = 3;
  constexpr std::int64_t kPerThread = 400 << 10, kRounding = 8 << 10;
  TestHandle const handle(kThreads);
  NextInShard next_in_shard;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    if (!next_in_shard()) continue;
    ProblemShape shape = random_problem_shape(seed, MSDA_BACKWARD);
    shape.query_hw.clear();
    shape.grad_coord_strides = shape.grad_weight_strides = {0, 0, 0};
    if (seed % 3 == 0) shape.query_count *= 200;
    if (seed % 5 == 0) shape.head_dim += 2000;
    std::int64_t const points =
        shape.batch * shape.query_count * shape.head_count * shape.point_total();
    std::int64_t const values =
        shape.batch * shape.token_count() * shape.head_count * shape.head_dim;
    shape.value_strides = shape.output_strides = {0, 0, 0};
    for (std::string const& id : accepting_kernels(handle, shape)) {
      if (!id.starts_with("simd.")) continue;
      CAPTURE(shape.describe());
      auto const needed = static_cast<std::int64_t>(
          plan_info(make_plan(handle, shape, id).plan.get()).workspace_bytes);
      CHECK(needed <= 24 * points + 8 * values + kThreads * kPerThread + kRounding);
    }
  }
}

TEST_CASE("the same bits backward with 1 2 3 and 7 threads on 20 shapes") {
  TestHandle const one(1);
  TestHandle const others[] = {TestHandle(2), TestHandle(3), TestHandle(7)};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    TestProblem const problem = random_backward_problem(seed, {80, 3000, 40});
    ProblemShape const& shape = problem.shape;
    for (std::string const& id : accepting_kernels(one, shape)) {
      if (id.starts_with("ref.")) continue;  // the next test has it, on smaller problems
      CAPTURE(shape.describe());
      CAPTURE(id);
      RunResult const expected = run(one, problem, id);
      REQUIRE(expected.failure == "");
      for (TestHandle const& handle : others) {
        RunResult const result = run(handle, problem, id);
        REQUIRE(result.failure == "");
        CHECK(result.same_bits(expected));
      }
    }
  }
}

TEST_CASE("the same bits backward in 100 runs on 20 shapes, with one thread and two") {
  TestHandle const handles[] = {TestHandle(1), TestHandle(2)};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    TestProblem const problem = random_backward_problem(seed, {40, 60, 40});
    for (std::string const& id : accepting_kernels(handles[0], problem.shape)) {
      if (id.starts_with("ref.")) continue;
      CAPTURE(problem.shape.describe());
      CAPTURE(id);
      for (TestHandle const& handle : handles) {
        PlanResult const plan = make_plan(handle, problem.shape, id);
        CHECK(differing_runs(plan.plan.get(), problem, 100) == 0);
      }
    }
  }
}
TEST_CASE("the same bits backward in 100 runs on 20 shapes, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  Sizes const most = kGpuIsSimulated ? Sizes{16, 60, 24} : Sizes{80, 1000, 40};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    TestProblem const problem = random_backward_problem(seed, most);
    for (std::string const& id : accepting_kernels(handle, problem.shape)) {
      if (!is_deterministic(id)) continue;
      CAPTURE(problem.shape.describe());
      CAPTURE(id);
      PlanResult const plan = make_plan(handle, problem.shape, id);
      CHECK(differing_runs(plan.plan.get(), problem, gpu_repeats(100)) == 0);
    }
  }
}

TEST_CASE("the same bits backward under limits of workspace, in every subset of gradients") {
  TestHandle const handles[] = {TestHandle(1), TestHandle(3)};
  for (std::int32_t const reference_dim : {0, 2, 4}) {
    for (msda_dtype const dtype : {MSDA_DTYPE_F32, MSDA_DTYPE_BF16}) {
      ProblemShape shape = backward_shape({{45, 40, 4}, {5, 6, 3}}, dtype);
      shape.batch = 2;
      shape.query_count = 700;
      shape.head_count = 5;
      shape.head_dim = 16;
      shape.reference_dim = reference_dim;
      Rng rng(static_cast<std::uint64_t>(reference_dim));
      TestProblem const problem = fill_problem(shape, DataKind{}, rng);
      for (TestHandle const& handle : handles) {
        check_limits(handle, problem,
                     dtype == MSDA_DTYPE_F32 ? "simd.cpu.f32@2" : "simd.cpu.bf16@2");
      }
    }
  }
}
