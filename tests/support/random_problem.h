// Random problems: every combination the contract allows, kept small. A problem follows from its
// seed alone.
#pragma once

#include "command/problem/random_numbers.h"
#include "support/test_problem.h"

#include <cstdint>

namespace msda::test {

// What the data of a problem is like.
struct DataKind {
  // Where coordinates may fall (normalised, sampled; fused inputs land in about the same range).
  double low = -0.25, high = 1.25;
  bool on_pixel_lines = false;  // some coordinates exactly on them
  bool odd_coords = false;      // NaN, infinities, 1e38, denormals among the coordinates
  // NaN among weights (or logits), infinities among sampled weights, NaN and infinities among
  // values and in grad_output. Coordinates keep away from pixel lines where something is infinite
  // or a value NaN: there rounding decides which pixels are read.
  bool odd_weights = false;
  bool infinite_weights = false;
  bool odd_values = false;
  bool odd_grads = false;
  // Logits that rise or fall by much along a row, and rows that are all -inf, or huge.
  bool steep_logits = false;
  double value_scale = 1;    // size of the values
  bool huge_values = false;  // not far from the largest of their type
};

ProblemShape random_shape(Rng& rng);
DataKind random_data_kind(Rng& rng, ProblemShape const& shape);
// Inputs for a shape, rounded to its storage types.
TestProblem fill_problem(ProblemShape const& shape, DataKind const& kind, Rng& rng);

// Any kRandomPeriod neighbouring seeds have forward problems for every kernel of the library.
inline constexpr std::uint64_t kRandomPeriod = 114;
struct RandomDraw {
  ProblemShape shape;
  DataKind kind;
};
RandomDraw random_draw(std::uint64_t seed, msda_operation operation);
TestProblem random_problem(std::uint64_t seed, msda_operation operation = MSDA_FORWARD);
ProblemShape random_problem_shape(std::uint64_t seed, msda_operation operation = MSDA_FORWARD);

// How many problems the random tests of a GPU and of the CPU run, and from which seed on.
struct RandomCounts {
  std::uint64_t forward;
  std::uint64_t backward;
};
inline constexpr std::uint64_t kDefaultSeed = 42000;
inline constexpr RandomCounts kGpuProblems = {2100, 1000}, kCpuProblems = {500, 200};

// How many random problems to run and where they start: problem i has the seed first + i. From the
// environment, MSDA_TEST_SEED and MSDA_TEST_PROBLEMS, so that a failure is repeated by its seed
// and 1; of these the shard that MSDA_TEST_SHARD asks for.
struct RandomRange {
  std::uint64_t first;
  std::uint64_t count;
};
RandomRange random_range(std::uint64_t default_count);
// The command line that repeats one problem.
std::string repro(const char* test_case, std::uint64_t seed, TestProblem const& problem);

}  // namespace msda::test
