// Many calls of random shapes: memory does not grow and results do not drift. MSDA_TEST_SOAK_CALLS
// sets how many; a long run takes 1,000,000 or more.

#include "support/environment.h"
#include "support/random_problem.h"
#include "support/runner.h"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

using namespace msda::test;

namespace {

std::int64_t resident_bytes() {
  std::ifstream stream("/proc/self/statm");
  std::int64_t total_pages = 0, resident_pages = 0;
  stream >> total_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

std::uint64_t hash_bits(RunResult const& result, std::uint64_t hash) {
  for (auto const& tensor : result.bits) {
    for (std::uint64_t const bits : tensor) hash = (hash ^ bits) * 1099511628211u;
  }
  return hash;
}

// A problem small enough that handles and plans are what a call costs.
TestProblem soak_problem(std::uint64_t seed) {
  Rng rng(seed);
  ProblemShape shape = random_shape(rng);
  shape.query_count = std::min<std::int64_t>(shape.query_count, 2);
  shape.head_count = std::min<std::int64_t>(shape.head_count, 2);
  shape.query_hw.clear();
  for (LevelShape& level : shape.levels) {
    level.height = std::min(level.height, 5);
    level.width = std::min(level.width, 5);
  }
  shape.value_strides = shape.coord_strides = shape.weight_strides =
      shape.output_strides = {0, 0, 0};
  return fill_problem(shape, DataKind{}, rng);
}

}  // namespace

TEST_CASE("soak") {
  auto const calls = static_cast<std::int64_t>(
      environment_number("MSDA_TEST_SOAK_CALLS", 5'000, {1, 1'000'000'000'000}));
  constexpr std::int64_t kRound = 500;  // problems that come again and again
  std::vector<TestProblem> problems;
  for (std::int64_t i = 0; i < kRound; ++i)
    problems.push_back(soak_problem(static_cast<std::uint64_t>(i)));
  TestHandle const handle(2);
  std::int64_t resident_before = 0;
  std::uint64_t first_hash = 0, hash = 0;
  for (std::int64_t call = 0; call < calls; ++call) {
    if (call == 2 * kRound) resident_before = resident_bytes();
    if (call % kRound == 0) hash = 0;
    RunResult const result = run(handle, problems[static_cast<std::size_t>(call % kRound)], "");
    REQUIRE(result.failure == "");
    hash = hash_bits(result, hash);
    if (call + 1 == kRound) first_hash = hash;
    if ((call + 1) % kRound == 0) REQUIRE(hash == first_hash);
  }
  std::int64_t const growth = resident_bytes() - resident_before;
  fmt::print("[soak   ] {} calls, resident memory grew by {} bytes after the first {}\n", calls,
             growth, 2 * kRound);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which keep freed memory
  CHECK(growth < 1 << 20);
#endif
}
