// Every dimension 0 in turn, and every kind of level without pixels or points, with NaN and
// infinity in every input in turn: each kernel, both operations, all inputs. Every element is
// compared.

#include "support/environment.h"
#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/kernel_cases.h"
#include "support/kernel_limits.h"
#include "support/random_problem.h"
#include "support/runner.h"
#include "support/tolerance.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>

using namespace msda::test;
using msda::command::Arithmetic;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Emptiness {
  const char* name;
  std::function<void(ProblemShape&)> apply;
};

// What becomes of a shape whose levels are 2 or more.
std::vector<Emptiness> const& emptinesses() {
  static std::vector<Emptiness> const all = {
      {"none", [](ProblemShape&) {}},
      {"B", [](ProblemShape& s) { s.batch = 0; }},
      {"Q", [](ProblemShape& s) { s.query_count = 0; }},
      {"M", [](ProblemShape& s) { s.head_count = 0; }},
      {"D", [](ProblemShape& s) { s.head_dim = 0; }},
      {"L", [](ProblemShape& s) { s.levels.clear(); }},
      {"P",
       [](ProblemShape& s) {
         for (LevelShape& level : s.levels) level.points = 0;
       }},
      {"P of a level", [](ProblemShape& s) { s.levels.front().points = 0; }},
      {"H of the first level", [](ProblemShape& s) { s.levels.front().height = 0; }},
      {"W of the first level", [](ProblemShape& s) { s.levels.front().width = 0; }},
      {"H of the last level", [](ProblemShape& s) { s.levels.back().height = 0; }},
      {"W of the last level", [](ProblemShape& s) { s.levels.back().width = 0; }},
      {"H of all levels",
       [](ProblemShape& s) {
         for (LevelShape& level : s.levels) level.height = 0;
       }},
      {"W of all levels",
       [](ProblemShape& s) {
         for (LevelShape& level : s.levels) level.width = 0;
       }},
  };
  return all;
}

// NaN or an infinity in an input.
struct Special {
  TensorRow const* input;
  double number;
};

std::vector<std::optional<Special>> specials_of(ProblemShape const& shape) {
  std::vector<std::optional<Special>> result = {std::nullopt};
  for (TensorRow const& row : tensor_rows()) {
    if (row.is_result() || row.is_optional() || !row.belongs_to(shape)) continue;
    for (double const number : {std::nan(""), kInfinity, -kInfinity}) {
      result.push_back(Special{&row, number});
    }
  }
  return result;
}

// Three elements of the input are the number.
TestProblem make_problem(ProblemShape const& shape, std::optional<Special> const& special,
                         std::uint64_t seed) {
  Rng rng(seed);
  TestProblem problem = fill_problem(shape, {}, rng);
  if (!special) return problem;
  std::vector<double>& numbers = problem.inputs[special->input->id];
  for (int i = 0; i < 3 && !numbers.empty(); ++i) {
    numbers[static_cast<std::size_t>(
        rng.integer(0, static_cast<std::int64_t>(numbers.size()) - 1))] = special->number;
  }
  problem.settle();
  return problem;
}

// Problems that several kernels take are made once.
class Problems {
 public:
  struct Item {
    explicit Item(TestProblem made) : problem(std::move(made)), expectations(problem) {}
    TestProblem problem;
    ExpectationsByArithmetic expectations;
  };
  Item& of(ProblemShape const& shape, std::optional<Special> const& special, std::size_t number) {
    std::string const key = fmt::format("{} {}", shape.describe(), number);
    auto const found = items_.find(key);
    if (found != items_.end()) return *found->second;
    return *items_.emplace(key, std::make_unique<Item>(make_problem(shape, special, number)))
                .first->second;
  }

 private:
  std::map<std::string, std::unique_ptr<Item>> items_;
};

void check_kernel(TestHandle const& handle, std::string const& id, Problems::Item& item) {
  ProblemShape const& shape = item.problem.shape;
  std::string const reason = expected_reason(handle, id, shape);
  PlanResult const plan = make_plan(handle, shape, id);
  CHECK((plan.status == MSDA_SUCCESS) == reason.empty());
  if (plan.status != MSDA_SUCCESS) return;
  RunResult const result = run_plan(plan.plan.get(), item.problem, 11);
  CHECK(result.failure == "");
  if (!result.failure.empty()) return;
  for (TensorRow const& row : tensor_rows()) {
    if (!row.is_result() || !row.belongs_to(shape)) continue;
    CAPTURE(row.name);
    Expected const expected = expected_of(id, item.expectations[arithmetic_of(id)], row.id);
    CHECK(compare(expected, result.values[row.id]).failure == "");
  }
}

// Each kernel takes every `stride`-th of the problems, another than the kernel before.
void check_product(TestHandle const& handle, std::size_t stride) {
  Shard const shard = shard_of_tests();
  Problems problems;
  std::map<std::string, int> runs;
  std::size_t kernel_number = 0;
  for (std::string const& id : kernel_ids(handle)) {
    ++kernel_number;
    for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
      for (std::int32_t const reference_dim : {0, 2, 4}) {
        std::optional<ProblemShape> const base = shape_for(handle, id, operation, reference_dim);
        if (!base) continue;
        std::size_t place = kernel_number + (operation == MSDA_BACKWARD ? 3 : 0) +
                            static_cast<std::size_t>(reference_dim);
        for (Emptiness const& empty : emptinesses()) {
          ProblemShape shape = *base;
          empty.apply(shape);
          std::size_t number = 0;
          for (std::optional<Special> const& special : specials_of(shape)) {
            ++number;
            if (++place % stride != 0 || !shard.holds(place / stride)) continue;
            std::string const what = fmt::format(
                "{}: {} empty, {} in {}: {}", id, empty.name, special ? special->number : 0.0,
                special ? special->input->name : "no input", shape.describe());
            CAPTURE(what);
            check_kernel(handle, id, problems.of(shape, special, number));
            ++runs[KernelId(id).family()];
          }
        }
      }
    }
  }
  for (auto const& [family, count] : runs) fmt::print("[empty  ] {}: {} problems\n", family, count);
  CHECK(!runs.empty());
}

// A row of a point between columns of 1 and -1, whose fraction is 2^-13 more than what kernels with
// float16 sums round it to, 1/2, where the sample would be 0. Further points weigh 0.
TestProblem problem_of_small_sample(int points) {
  ProblemShape shape;
  shape.batch = shape.query_count = shape.head_count = 1;
  shape.head_dim = 32;
  shape.levels = {{.height = 2, .width = 2, .points = points}};
  shape.value_dtype = shape.output_dtype = MSDA_DTYPE_F16;
  shape.math_mode = MSDA_MATH_FAST;
  TestProblem problem{shape, {}};
  std::vector<double>& value = problem.inputs[TensorId::kValue];
  for (int pixel = 0; pixel < 4; ++pixel) value.insert(value.end(), 32, pixel % 2 == 0 ? 1 : -1);
  for (int k = 0; k < points; ++k) {
    std::vector<double>& coord = problem.inputs[TensorId::kCoord];
    coord.insert(coord.end(), {0.5 + 0x1p-14, 0.5});
    problem.inputs[TensorId::kWeight].push_back(k == 0 ? kInfinity : 0);
  }
  problem.settle();
  return problem;
}

}  // namespace

TEST_CASE("an infinite weight has a sample's sign only where that is known") {
  TestProblem const problem = problem_of_small_sample(1);
  auto const allows = [&](Arithmetic arithmetic, double output) {
    Expectations const expected(problem, arithmetic);
    std::vector<double> const outputs(32, output);
    return compare(expected[TensorId::kOutput], outputs).failure.empty();
  };
  for (double const output : {kInfinity, -kInfinity, std::nan("")}) {
    CHECK(allows(Arithmetic::kFloat32, output) == (output == -kInfinity));
    CHECK(allows(Arithmetic::kFloat16Sums, output));
  }
  CHECK(!allows(Arithmetic::kFloat16Sums, 1.0));
}

// Kernels with float16 sums know it in tma alone: persistent's and cluster's round shares of pixels
// where they sum in float32, too. Its windows take no row of one point.
TEST_CASE("an infinite weight has the sign of a small sample, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  int runs = 0;
  for (std::string const& id : kernel_ids(handle)) {
    TestProblem const problem = problem_of_small_sample(id.find(".win.") == id.npos ? 1 : 4);
    bool const rounds = arithmetic_of(id) == Arithmetic::kFloat16Sums && !id.starts_with("tma.");
    if (rounds || !expected_reason(handle, id, problem.shape).empty()) continue;
    CAPTURE(id);
    RunResult const result = run(handle, problem, id);
    REQUIRE(result.failure == "");
    CHECK(result.values[TensorId::kOutput] == std::vector<double>(32, -kInfinity));
    ++runs;
  }
  CHECK(runs > 0);
}

TEST_CASE("each dimension 0 and each input NaN or infinite") { check_product(TestHandle(), 1); }
TEST_CASE("each dimension 0 and each input NaN or infinite on the GPU" * needs_gpu()) {
  check_product(TestHandle(gpu_options()), kGpuIsSimulated ? 11 : 1);
}
