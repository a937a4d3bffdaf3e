// The tests' own tools: a check that cannot fail is worth nothing.

#include "support/case_file.h"
#include "support/error_store.h"
#include "support/golden.h"
#include "support/runner.h"
#include "support/tolerance.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>

using namespace msda::test;

namespace {

// Whether touching the address ends the process.
bool crashes(volatile std::byte* address, bool write) {
  pid_t const pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    std::signal(SIGSEGV, [](int) { _exit(42); });
    std::signal(SIGBUS, [](int) { _exit(42); });
    if (write) {
      *address = std::byte{1};
    } else {
      static_cast<void>(*address);
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

TestProblem tiny_problem() {
  ProblemShape shape;
  shape.levels = {{3, 3, 1}};
  shape.head_dim = 2;
  Rng rng(1);
  DataKind inside;
  inside.low = 0.2;
  inside.high = 0.8;
  return fill_problem(shape, inside, rng);
}

}  // namespace

TEST_CASE("guard pages guard") {
  GuardedBuffer const high(100, 4, Against::kHighPage, 0);
  CHECK_FALSE(crashes(high.data() + 99, true));
  CHECK(crashes(high.data() + 100, false));
  GuardedBuffer const low(100, 4, Against::kLowPage, 0);
  CHECK_FALSE(crashes(low.data(), true));
  CHECK(crashes(low.data() - 1, false));
  GuardedBuffer read_only(100, 4);
  read_only.set_read_only(true);
  CHECK_FALSE(crashes(read_only.data(), false));
  CHECK(crashes(read_only.data(), true));
  GuardedBuffer const empty(0, 4);
  CHECK(crashes(empty.data(), false));
}

TEST_CASE("bytes beside a buffer are watched") {
  for (Against const against : {Against::kLowPage, Against::kHighPage}) {
    for (std::size_t const shift : {4, 60}) {
      GuardedBuffer buffer(100, 4, against, shift);
      CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4 == 0);
      CHECK(buffer.surroundings_intact());
      std::byte* const beside =
          against == Against::kLowPage ? buffer.data() - 1 : buffer.data() + 100;
      *beside = std::byte{0};
      CHECK_FALSE(buffer.surroundings_intact());
    }
  }
  GuardedBuffer const aligned(1000, 256);
  CHECK(reinterpret_cast<std::uintptr_t>(aligned.data()) % 256 == 0);
}

TEST_CASE("a missing element and a written gap are seen") {
  TensorLayout const layout{MSDA_DTYPE_F32, {2, 2, 1, 3}, {16, 4, 3}};
  HostTensor tensor(layout);
  CHECK(tensor.check_untouched() == "");
  CHECK(tensor.check_written() == "element 0 was not written");
  tensor.set_values(std::vector<double>(12, 1.0));
  CHECK(tensor.check_written() == "");
  CHECK(tensor.check_untouched() != "");
  static_cast<float*>(tensor.data())[3] = 0;
  CHECK(tensor.check_written() == "the gap at element 3 was written");
}

TEST_CASE("compare refuses what is off") {
  double const nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  Expected const expected{MSDA_DTYPE_F32, {1.0, nan, infinity, 0.0}, {1e-6, 0, 0, 1e-6}};
  auto const failure = [&](std::vector<double> const& actual) {
    return compare(expected, actual).failure;
  };
  CHECK(failure({1.0, nan, infinity, 0.0}) == "");
  CHECK(failure({1.0 + 1e-6, nan, infinity, -1e-6}) == "");
  CHECK(failure({1.0 + 2e-6, nan, infinity, 0.0}) != "");
  CHECK(failure({nan, nan, infinity, 0.0}) != "");
  CHECK(failure({1.0, 1.0, infinity, 0.0}) != "");
  CHECK(failure({1.0, nan, -infinity, 0.0}) != "");
  CHECK(failure({1.0, nan, 1e38, 0.0}) != "");
  CHECK(failure({infinity, nan, infinity, 0.0}) != "");
  CHECK(failure({1.0, nan, infinity}) != "");
  // At the end of the type, infinity is a rounding away.
  CHECK(compare({MSDA_DTYPE_F16, {65519.0}, {10}}, {infinity}).failure == "");
  CHECK(compare({MSDA_DTYPE_F16, {65000.0}, {10}}, {infinity}).failure != "");
  // Half a unit in the last place is allowed, a whole one is not.
  CHECK(compare({MSDA_DTYPE_BF16, {1.0 + 0x1p-8}, {0}}, {1.0 + 0x1p-7}).failure == "");
  CHECK(compare({MSDA_DTYPE_BF16, {1.0}, {0}}, {1.0 + 0x1p-7}).failure != "");
}

TEST_CASE("the bound is tight enough to see a wrong float") {
  TestProblem const problem = tiny_problem();
  Expectations const expected(problem, Arithmetic::kFloat32);
  std::vector<double> output = run_oracle(problem).values[TensorId::kOutput];
  CHECK(compare(expected[TensorId::kOutput], output).failure == "");
  double const largest = std::fabs(output[0]);
  REQUIRE(largest > 1e-3);
  output[0] += 3e-5 * largest;
  CHECK(compare(expected[TensorId::kOutput], output).failure != "");
}

TEST_CASE("a small weight of a softmax may be farther off") {
  std::vector<GoldenCase> const cases = golden_cases();
  auto const golden = std::ranges::find_if(cases, [](GoldenCase const& it) {
    return it.problem.shape.fused() && it.problem.shape.point_total() > 1;
  });
  REQUIRE(golden != cases.end());
  TestProblem problem = golden->problem;
  problem.shape.operation = MSDA_FORWARD;
  std::vector<double>& logit = problem.inputs[TensorId::kLogit];
  std::ranges::fill(logit, 1.0);
  for (double const distance : run_oracle(problem).output_distances) CHECK(distance == 0);
  // The first point of each row weighs e^40 times as much as any other, and lies beside the map:
  // the result is of the others alone.
  auto const K = static_cast<std::size_t>(problem.shape.point_total());
  for (std::size_t i = 0; i < logit.size(); ++i) logit[i] = i % K == 0 ? 41.0 : 1.0;
  std::vector<double>& offset = problem.inputs[TensorId::kOffset];
  for (std::size_t i = 0; i < offset.size(); i += 2 * K) offset[i] = offset[i + 1] = 1e6;
  OracleResult const oracle = run_oracle(problem);
  std::vector<double> const slopes = output_slopes(problem, Slope::kOfMap);
  Expectations const expected(problem, Arithmetic::kFloat32);
  int compared = 0;
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    double const magnitude = oracle.output_magnitudes[i];
    if (magnitude == 0) continue;
    ++compared;
    CHECK(oracle.output_distances[i] / magnitude == doctest::Approx(40));
    // As include/msda.h has it.
    double const units = expected[TensorId::kOutput].bound[i] * 0x1p24 - 4 * slopes[i];
    CHECK(units / magnitude == doctest::Approx(4 * static_cast<double>(K) + 8 + 2 * 40));
  }
  CHECK(compared > 0);
}

namespace {

void check_oracle(std::vector<GoldenCase> const& cases) {
  for (GoldenCase const& golden : cases) {
    CAPTURE(golden.name);
    for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
      TestProblem problem = golden.problem;
      problem.shape.operation = operation;
      OracleResult const result = run_oracle(problem);
      for (TensorRow const& row : tensor_rows()) {
        if (!row.is_result() || !row.belongs_to(problem.shape)) continue;
        CAPTURE(row.name);
        CHECK(difference_from_file(golden.results[row.id], result.values[row.id]) == "");
      }
    }
  }
}

}  // namespace

TEST_CASE("the oracle gives the golden vectors") {
  check_oracle(golden_cases());
  check_oracle(nearest_golden_cases());
}

TEST_CASE("a number that is off from a golden file's is seen") {
  double const nan = std::nan("");
  std::vector<double> const stored = {4.0, -8.0, 0.0};
  CHECK(difference_from_file(stored, stored) == "");
  CHECK(difference_from_file(stored, {4.0, -8.0, 7e-12}) == "");
  CHECK(difference_from_file(stored, {4.0, -8.0, 9e-12}) != "");
  for (std::size_t i = 0; i < stored.size(); ++i) {
    std::vector<double> actual = stored;
    actual[i] = nan;
    CHECK(difference_from_file(stored, actual) != "");
    CHECK(difference_from_file(actual, actual) != "");  // a file may not hold one
  }
  CHECK(difference_from_file(stored, {4.0, -8.0}) != "");
}

TEST_CASE("errors of more than 3 times those kept are seen") {
  double const nan = std::nan("");
  ResultErrors const kept{1e-6, 1e-7};
  CHECK(worse_than(kept, kept) == "");
  CHECK(worse_than(kept, {2.9e-6, 2.9e-7}) == "");
  CHECK(worse_than(kept, {3.1e-6, 1e-7}).find("largest error is 3.1e-06") != std::string::npos);
  CHECK(worse_than(kept, {1e-6, 3.1e-7}).find("L2 error is 3.1e-07") != std::string::npos);
  CHECK(worse_than(kept, {nan, 0}) != "");
  CHECK(worse_than(kept, {0, nan}) != "");
  CHECK(worse_than({0, 0}, {9e-15, 9e-15}) == "");  // what float64 makes
  CHECK(worse_than({0, 0}, {2e-14, 0}) != "");
  ErrorSum sum;
  sum.add(compare({MSDA_DTYPE_F64, {3, 4}, {1, 1}}, {3, 4.5}));
  sum.add(compare({MSDA_DTYPE_F64, {0}, {1}}, {-0.25}));
  CHECK(sum.total().max_error == 0.5);
  CHECK(sum.total().l2_error == doctest::Approx(std::sqrt(0.3125) / 5));
}

TEST_CASE("a problem follows from its seed") {
  TestProblem const first = random_problem(5), again = random_problem(5), other = random_problem(6);
  CHECK(first.shape.describe() == again.shape.describe());
  CHECK(first.shape.describe() != other.shape.describe());
  auto const bits = [](TestProblem const& problem) {
    std::vector<std::uint64_t> all;
    for (auto const& tensor : problem.inputs.by_id) {
      for (double const number : tensor) all.push_back(raw_bits(MSDA_DTYPE_F64, &number));
    }
    return all;
  };
  CHECK(bits(first) == bits(again));
}

TEST_CASE("random problems reach what they are meant to reach") {
  int empty = 0, ragged = 0, strided = 0, fused = 0, bordered = 0, nan_inputs = 0, hinted = 0;
  std::vector<bool> head_dims(72);
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    Rng rng(seed);
    ProblemShape const shape = random_shape(rng);
    empty += layout_of(shape, TensorId::kOutput).element_count() == 0;
    for (LevelShape const& level : shape.levels) {
      ragged += level.points != shape.levels[0].points;
    }
    strided += shape.value_strides != Strides3{0, 0, 0};
    fused += shape.fused();
    bordered += shape.value_border;
    hinted += !shape.query_hw.empty();
    DataKind const kind = random_data_kind(rng, shape);
    nan_inputs += kind.odd_values || kind.odd_weights;
    if (shape.head_dim < 72) head_dims[static_cast<std::size_t>(shape.head_dim)] = true;
  }
  for (int const count : {empty, ragged, strided, fused, bordered, nan_inputs, hinted}) {
    CHECK(count > 50);
  }
  CHECK(std::count(head_dims.begin(), head_dims.end(), true) == 72);
}

TEST_CASE("levels of random problems lie anywhere") {
  int reordered = 0, shared = 0, behind = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    ProblemShape const shape = random_problem_shape(seed, MSDA_BACKWARD);
    reordered += !std::ranges::is_sorted(shape.level_start);
    std::int64_t tokens = 0;
    for (LevelShape const& level : shape.levels) tokens += shape.level_tokens(level);
    shared += shape.token_count() < tokens;
    behind += shape.tokens != 0;
  }
  for (int const count : {reordered, shared, behind}) CHECK(count > 20);
}

TEST_CASE("the corpus is read") {
  CHECK(corpus().size() > 50);
  CHECK(corpus_case("mixed_f16").shapes().size() == 1);
  CHECK(corpus_case("dfine").shapes().size() == 5);
  CHECK(corpus_case("dfine").shape.levels[1].points == 6);
  CHECK_THROWS(corpus_case("no such case"));
  CorpusCase const rounds = corpus_case("rounds_32");
  CHECK(rounds.is_for(true, MSDA_FORWARD));
  CHECK_FALSE(rounds.is_for(false, MSDA_FORWARD));
  CHECK_FALSE(rounds.is_for(true, MSDA_BACKWARD));
  CHECK(rounds.sm_count_limits == std::vector<std::int32_t>{1, 3});
  CHECK(corpus_case("fast_too_high").only_plans);
  CHECK(corpus_case("decoder").is_for(false, MSDA_BACKWARD));
  CHECK_FALSE(corpus_case("decoder").only_plans);
}
