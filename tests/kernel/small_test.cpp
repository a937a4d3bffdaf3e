// Tests what holds of the backward of small problems beside what every kernel is tested for: rounds
// that are just full, cells and pixels of many records, tiles of wide and tall maps, every number
// of channels, long fused rows, rows that are no numbers.

#include "support/backward_shape.h"
#include "support/expected_reason.h"
#include "support/gpu_tests.h"
#include "support/random_problem.h"
#include "support/repeated_runs.h"
#include "support/result_check.h"
#include "support/runner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

using namespace msda::test;

namespace {

// Points are on their maps from `low` to `high`.
TestProblem problem_of(ProblemShape const& shape, std::uint64_t seed, double low = 0.001,
                       double high = 0.999) {
  DataKind kind;
  kind.low = low;
  kind.high = high;
  Rng rng(seed);
  return fill_problem(shape, kind, rng);
}

std::string small_kernel(TestHandle const& handle, ProblemShape const& shape) {
  std::vector<std::string> ids = accepting_kernels(handle, shape);
  std::erase_if(ids, [](std::string const& id) { return !id.starts_with("small."); });
  REQUIRE(ids.size() == 1);
  return ids.front();
}

void check_against_oracle(TestHandle const& handle, TestProblem const& problem) {
  check_results(handle, problem, small_kernel(handle, problem.shape), 0);
}

// Besides under other schedules and at other addresses, with the same bits.
void check_bits(TestHandle const& handle, TestProblem const& problem) {
  check_against_oracle(handle, problem);
  PlanResult const plan = make_plan(handle, problem.shape, small_kernel(handle, problem.shape));
  CHECK(differing_runs(plan.plan.get(), problem, 2) == 0);
}

// How many of 8 calls, whose buffers lie at other addresses each, write to where the workspace has
// sums between rounds: at its start, where gradients are of 16 bits.
int calls_with_sums_in_memory(TestHandle const& handle, TestProblem const& problem) {
  PlanResult const plan = make_plan(handle, problem.shape, small_kernel(handle, problem.shape));
  int writing = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    CallBuffers buffers(problem, plan.plan.get(), seed);
    auto const* const sums = static_cast<const std::byte*>(buffers.c().workspace);
    std::size_t const bytes = 4 * problem.inputs[TensorId::kValue].size();
    REQUIRE(buffers.c().workspace_bytes >= bytes);
    std::vector<std::byte> const poison(sums, sums + bytes);
    Executed const executed = execute(plan.plan.get(), buffers);
    REQUIRE_MESSAGE(executed.status == MSDA_SUCCESS, executed.message);
    REQUIRE(executed.failure == "");
    if (!std::equal(poison.begin(), poison.end(), sums)) ++writing;
  }
  return writing;
}

void check_two_rounds_at_once(TestHandle const& handle, std::int32_t dim) {
  CAPTURE(dim);
  for (auto const& [dtype, channels] : std::vector<std::pair<msda_dtype, std::int64_t>>{
           {MSDA_DTYPE_F32, 32}, {MSDA_DTYPE_F16, 8}}) {
    Shape const shape = {{{90, 91, 4}}, 1, 1025, 1, channels};
    TestProblem const problem = problem_of(backward_shape(shape, dtype, dim), 89);
    check_bits(handle, problem);
    if (dtype == MSDA_DTYPE_F32) continue;  // its sums lie in grad_value
    int const calls = calls_with_sums_in_memory(handle, problem);
    CHECK(calls > 0);
    CHECK(calls < 8);
  }
}

}  // namespace

// Beside a level of one round there are two of as many points as a round has, and one less and
// more, and of three rounds: one of crowded pixels, one without, whose tiles end a round with no
// barrier of a crowd. Sums between rounds lie in the workspace, or in float32 gradients.
TEST_CASE("small backward: rounds that are just full" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int64_t const queries : {1023, 1024, 1025, 2049}) {
    for (msda_dtype const dtype : {MSDA_DTYPE_F32, MSDA_DTYPE_F16}) {
      check_against_oracle(
          handle,
          problem_of(backward_shape({{{5, 9, 4}, {31, 40, 4}, {2, 3, 1}}, 1, queries, 1, 8}, dtype),
                     81));
    }
  }
}

// A tile has both rounds of the map at once, with the same bits as where rows do not lie at
// multiples of 16 bytes and rounds follow each other.
TEST_CASE("small backward: two rounds at once: sampled" * needs_gpu()) {
  check_two_rounds_at_once(TestHandle(gpu_options()), 0);
}
TEST_CASE("small backward: two rounds at once: fused" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int32_t const dim : {2, 4}) check_two_rounds_at_once(handle, dim);
}

// Beside a level of one round, and one of two that a tile does not have at once.
TEST_CASE("small backward: every type of two rounds" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int32_t const dim : {0, 2, 4}) {
    for (auto const& [dtype, channels] : std::vector<std::pair<msda_dtype, std::int64_t>>{
             {MSDA_DTYPE_F32, 16}, {MSDA_DTYPE_F16, 64}, {MSDA_DTYPE_BF16, 72}}) {
      Shape const shape = {{{45, 47, 4}, {7, 9, 1}, {5, 6, 4}}, 1, 1025, 1, channels};
      check_bits(handle, problem_of(backward_shape(shape, dtype, dim), 88, -0.1, 1.1));
    }
  }
}

// A tile has more points than records, or few, but a pixel more than a slot adds up.
TEST_CASE("small backward: two rounds of points too close" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int32_t const dim : {0, 2}) {
    for (double const width : {0.04, 0.3}) {
      CAPTURE(dim);
      CAPTURE(width);
      Shape const shape = {{{60, 69, 8}}, 1, 1024, 1, 8};
      TestProblem problem = problem_of(backward_shape(shape, MSDA_DTYPE_F16, dim), 90,
                                       0.5 - width / 2, 0.5 + width / 2);
      for (double& x : problem.inputs[TensorId::kReference]) {
        x = static_cast<float>(0.5 + width * (x - 0.5));
      }
      check_bits(handle, problem);
      CHECK(calls_with_sums_in_memory(handle, problem) == 8);
    }
  }
}

// Up to 16 records of a cell are ordered by a thread, up to 16 of a pixel added by a slot.
TEST_CASE("small backward: cells and pixels of many points" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int64_t const queries : {16, 17, 64, 65, 701}) {
    std::int64_t const channels = queries == 65 ? 48 : queries == 16 ? 72 : 8;
    check_bits(handle, problem_of(backward_shape({{{4, 3, 1}, {3, 5, 1}}, 1, queries, 2, channels},
                                                 queries == 16 ? MSDA_DTYPE_F16 : MSDA_DTYPE_F32),
                                  82, 0.4, 0.6));
  }
}

// Beyond 16 records of a pixel a warp adds it up, beyond 32 for each of its slots the block.
TEST_CASE("small backward: crowded pixels" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (auto const& [channels, queries] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{32, 256},
                                                          {24, 257},
                                                          {64, 128},
                                                          {64, 129},
                                                          {16, 512},
                                                          {16, 513},
                                                          {256, 32},
                                                          {256, 33},
                                                          {72, 300},
                                                          {8, 4200}}) {
    for (msda_dtype const dtype : {MSDA_DTYPE_F32, MSDA_DTYPE_F16}) {
      Shape const shape = {{{3, 3, 1}, {1, 2, 1}}, 1, queries, 1, channels};
      check_bits(handle, problem_of(backward_shape(shape, dtype), 86, 0.45, 0.55));
    }
  }
}

TEST_CASE("small backward: tiles of wide and of tall maps" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  std::vector<LevelShape> const maps = {
      {2, 1100, 2}, {4000, 1, 3}, {60, 61, 1}, {0, 3, 1}, {1, 1, 2}};
  check_bits(handle,
             problem_of(backward_shape({maps, 2, 40, 1, 8}, MSDA_DTYPE_F32), 83, -0.1, 1.1));
}

// A row of the smaller map has so many records that its tiles are parts of it.
TEST_CASE("small backward: tiles of parts of a row" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int64_t const channels : {16, 64}) {
    Shape const shape = {{{21, 40, 2}, {2, 19, 2}}, 1, 600, 2, channels};
    check_bits(handle, problem_of(backward_shape(shape, MSDA_DTYPE_F16), 87, -0.1, 1.1));
  }
}

TEST_CASE("small backward: every number of channels" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int64_t const channels : {8, 16, 24, 32, 40, 64, 72, 136, 256}) {
    for (msda_dtype const dtype : {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16}) {
      check_against_oracle(
          handle, problem_of(backward_shape({{{7, 8, 3}, {4, 4, 2}}, 2, 9, 3, channels}, dtype),
                             static_cast<std::uint64_t>(channels)));
    }
  }
}

// Up to 64 points of a row are staged in shared memory, more in the workspace; of more than 256 a
// warp weighs one row at a time.
TEST_CASE("small backward: fused rows of any number of points" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (std::int32_t const dim : {2, 4}) {
    for (std::int32_t const points : {1, 3, 13, 61, 62, 130, 260}) {
      Shape const shape = {{{5, 6, points}, {0, 9, 1}, {7, 1, 2}}, 2, 11, 2, 32};
      for (msda_dtype const dtype : {MSDA_DTYPE_F16, MSDA_DTYPE_F32}) {
        check_bits(handle, problem_of(backward_shape(shape, dtype, dim), 84));
      }
    }
    // Rounds that begin within a row, of four logits, of six, of 131 and of 261.
    for (auto const& [points, queries] : std::vector<std::pair<std::int32_t, std::int64_t>>{
             {3, 1400}, {5, 840}, {130, 33}, {260, 17}}) {
      Shape const shape = {{{5, 6, 1}, {3, 3, points}}, 1, queries, 1, 8};
      check_against_oracle(handle, problem_of(backward_shape(shape, MSDA_DTYPE_F32, dim), 85));
    }
  }
}

TEST_CASE("small backward: rows that are no numbers reach their points' pixels alone" *
          needs_gpu()) {
  TestHandle const handle(gpu_options());
  for (msda_dtype const dtype : {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16}) {
    TestProblem problem =
        problem_of(backward_shape({{{30, 31, 2}, {6, 5, 1}}, 1, 60, 2, 32}, dtype), 41);
    spoil_two_rows(problem);
    check_against_oracle(handle, problem);
  }
}
