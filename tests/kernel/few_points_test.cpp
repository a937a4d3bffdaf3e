// Rows of few points, of which the simd family reads several together: the numbers are right, and
// no row's bits depend on another.

#include "support/gpu_tests.h"
#include "support/kernel_cases.h"
#include "support/only_target.h"
#include "support/random_problem.h"
#include "support/runner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

using namespace msda::test;

namespace {

// A last group of rows that is not full, and two levels of which references have to fit a vector.
std::vector<ProblemShape> few_points() {
  std::vector<ProblemShape> shapes;
  for (std::vector<LevelShape> const& levels :
       std::vector<std::vector<LevelShape>>{{{9, 7, 1}},
                                            {{70, 40, 2}},
                                            {{9, 7, 1}, {4, 5, 1}},
                                            {{9, 7, 3}},
                                            {{9, 7, 3}, {1, 1, 0}, {4, 5, 1}},
                                            {{9, 7, 4}, {3, 3, 4}},
                                            {{9, 7, 8}}}) {
    for (std::int32_t const reference_dim : {0, 2, 4}) {
      ProblemShape shape;
      shape.levels = levels;
      shape.query_count = 37;
      shape.head_count = 3;
      shape.head_dim = shapes.size() % 2 == 0 ? 16 : 5;
      shape.reference_dim = reference_dim;
      shapes.push_back(shape);
    }
  }
  return shapes;
}

void check_few_points(TestHandle const& handle) {
  std::size_t number = 0;
  for (ProblemShape shape : few_points()) {
    constexpr msda_dtype kDtypes[] = {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16};
    shape.set_dtypes(kDtypes[number % std::size(kDtypes)]);
    if (number % 5 == 0) shape.weight_dtype = MSDA_DTYPE_F64;
    if (number % 5 == 1) shape.coord_dtype = shape.reference_dtype = MSDA_DTYPE_F64;
    if (number % 4 == 3) shape.sampling_mode = MSDA_SAMPLING_NEAREST;
    for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
      shape.operation = operation;
      Rng rng(number);
      check_all_kernels(handle, fill_problem(shape, DataKind{}, rng));
      DataKind odd;
      odd.odd_coords = odd.odd_weights = odd.steep_logits = true;
      check_all_kernels(handle, fill_problem(shape, odd, rng));
    }
    ++number;
  }
}

// One query's weights, logits or coordinates are no numbers: all others have the bits they had.
void check_other_rows(TestHandle const& handle) {
  constexpr auto kOutput = static_cast<std::size_t>(TensorId::kOutput);
  for (ProblemShape const& shape : few_points()) {
    CAPTURE(shape.describe());
    Rng rng(5);
    TestProblem const problem = fill_problem(shape, DataKind{}, rng);
    for (std::string const& id : accepting_kernels(handle, shape)) {
      CAPTURE(id);
      RunResult const before = run(handle, problem, id);
      REQUIRE(before.failure == "");
      for (TensorId const input :
           {shape.reference_dim == 0 ? TensorId::kWeight : TensorId::kLogit,
            shape.reference_dim == 0 ? TensorId::kCoord : TensorId::kOffset}) {
        constexpr std::size_t kQuery = 18;
        TestProblem spoiled = problem;
        std::vector<double>& elements = spoiled.inputs[input];
        std::size_t const row = elements.size() / static_cast<std::size_t>(shape.query_count);
        std::fill_n(elements.begin() + static_cast<std::ptrdiff_t>(kQuery * row), row,
                    std::numeric_limits<double>::infinity());
        RunResult const after = run(handle, spoiled, id);
        REQUIRE(after.failure == "");
        std::size_t const outputs =
            before.bits[kOutput].size() / static_cast<std::size_t>(shape.query_count);
        std::size_t same = 0;
        for (std::size_t i = 0; i < before.bits[kOutput].size(); ++i) {
          same +=
              i / outputs != kQuery && before.bits[kOutput][i] == after.bits[kOutput][i] ? 1 : 0;
        }
        CHECK(same == before.bits[kOutput].size() - outputs);
        CHECK(before.bits[kOutput] != after.bits[kOutput]);
      }
    }
  }
}

}  // namespace

TEST_CASE("rows of few points, whole and with inputs that are no numbers") {
  // How many rows are read together follows from the lanes of a vector.
  on_every_target([](std::string const&) { check_few_points(TestHandle(2)); });
}
TEST_CASE("rows of few points, whole and with inputs that are no numbers, on the GPU" *
          needs_gpu()) {
  check_few_points(TestHandle(gpu_options()));
}

TEST_CASE("a row of few points has the same bits whatever stands beside it") {
  on_every_target([](std::string const&) { check_other_rows(TestHandle(2)); });
}
TEST_CASE("a row of few points has the same bits whatever stands beside it, on the GPU" *
          needs_gpu()) {
  check_other_rows(TestHandle(gpu_options()));
}
