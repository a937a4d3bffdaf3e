// Do the random problems reach every kernel, whatever the seed? Asked of what each kernel refuses,
// so that those of GPUs are counted without one.

#include "support/random_problem.h"
#include "api/objects.h"
#include "cpu/thread_pool.h"
#include "registry.h"
#include "support/expected_reason.h"
#include "support/h200.h"
#include "support/problem_properties.h"

#include <doctest/doctest.h>

#include <fmt/core.h>

#include <algorithm>
#include <climits>
#include <map>
#include <string>

using namespace msda;
using namespace msda::test;

namespace {

constexpr std::uint64_t kProblems = 2100;

std::map<std::string, int> count_taken(std::uint64_t first_seed, std::uint64_t problem_count,
                                       msda_operation operation) {
  std::map<std::string, int> taken;
  for (std::uint64_t seed = first_seed; seed < first_seed + problem_count; ++seed) {
    ProblemShape const shape = random_problem_shape(seed, operation);
    for (KernelRef const& kernel : all_kernels()) {
      std::string const id = kernel.variant->id;
      taken[id] += expected_reason(is_for_gpu(id), id, shape).empty() ? 1 : 0;
    }
  }
  return taken;
}

using Pairs = std::map<std::pair<Property, Property>, int>;

Pairs count_pairs(std::uint64_t first_seed, RandomCounts const& problems) {
  Pairs pairs;
  auto const count = [&](msda_operation operation, std::uint64_t problem_count) {
    for (std::uint64_t seed = first_seed; seed < first_seed + problem_count; ++seed) {
      std::vector<Property> properties = properties_of(random_draw(seed, operation));
      std::ranges::sort(properties);
      for (std::size_t i = 0; i < properties.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) ++pairs[{properties[j], properties[i]}];
      }
    }
  };
  count(MSDA_FORWARD, problems.forward);
  count(MSDA_BACKWARD, problems.backward);
  return pairs;
}

// Calls fn(pair, how often it came) for every pair that is to come.
template <typename Fn>
void for_pairs(Pairs const& counted, Fn fn) {
  std::vector<Property> all = all_properties();
  std::ranges::sort(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (exclude_each_other(all[j], all[i])) continue;
      auto const found = counted.find({all[j], all[i]});
      fn(all[j].text() + ", " + all[i].text(), found == counted.end() ? 0 : found->second);
    }
  }
}

}  // namespace

TEST_CASE("random problems of a run have every pair of properties at least 10 times") {
  struct Run {
    std::uint64_t first;
    int least;
  };
  // From other seeds a few pairs come less often.
  for (Run const& run : {Run{kDefaultSeed, 10}, Run{777001, 5}, Run{1, 5}}) {
    CAPTURE(run.first);
    Pairs const counted = count_pairs(run.first, kGpuProblems);
    int pairs = 0, least = INT_MAX;
    for_pairs(counted, [&](std::string const& pair, int count) {
      CAPTURE(pair);
      CHECK(count >= run.least);
      ++pairs;
      least = std::min(least, count);
    });
    // What comes is not excluded: the list would hide that it is rare.
    for (auto const& [pair, count] : counted) {
      CAPTURE(pair.first.text());
      CAPTURE(pair.second.text());
      CHECK(!exclude_each_other(pair.first, pair.second));
    }
    fmt::print("[random ] seed {}: {} pairs, each {} times or more\n", run.first, pairs, least);
  }
}

TEST_CASE("the CPU's random problems have every pair of properties, shorter runs most") {
  for (RandomCounts const& problems : {kCpuProblems, RandomCounts{60, 60}}) {
    int pairs = 0, missing = 0, rare = 0;
    std::string names;
    bool const is_cpu_run = problems.forward == kCpuProblems.forward;
    for_pairs(count_pairs(kDefaultSeed, problems), [&](std::string const& pair, int count) {
      ++pairs;
      if (count == 0 && (pair.find("grad_") == std::string::npos || !is_cpu_run)) {
        ++missing;
        names += (names.empty() ? "" : "; ") + pair;
      }
      rare += count < 10 ? 1 : 0;
    });
    fmt::print("[random ] {} + {} problems: of {} pairs {} do not come, {} fewer than 10 times\n",
               problems.forward, problems.backward, pairs, missing, rare);
    CAPTURE(names);
    CHECK(missing < (is_cpu_run ? 1 : pairs / 2));
  }
}

TEST_CASE("of 2100 random problems each kernel that does forward takes at least 18") {
  for (std::uint64_t const first :
       {random_range(0).first, std::uint64_t{777001}, std::uint64_t{1}}) {
    for (auto const& [id, count] : count_taken(first, kProblems, MSDA_FORWARD)) {
      CAPTURE(first);
      CAPTURE(id);
      CHECK((count > 0) == does_forward(id));
      if (does_forward(id)) CHECK(count >= static_cast<int>(kProblems / kRandomPeriod));
    }
  }
}

TEST_CASE("any 114 neighbouring random problems reach each kernel") {
  for (std::uint64_t const first : {0, 33, 71, 94, 1'000'003}) {
    for (auto const& [id, count] : count_taken(first, kRandomPeriod, MSDA_FORWARD)) {
      CAPTURE(first);
      CAPTURE(id);
      CHECK((count >= 1) == does_forward(id));
    }
  }
}

TEST_CASE("of 2100 random problems each kernel that does backward takes at least 18") {
  for (auto const& [id, count] : count_taken(random_range(0).first, kProblems, MSDA_BACKWARD)) {
    CAPTURE(id);
    CHECK((count > 0) == does_backward(id));
    if (does_backward(id)) CHECK(count >= static_cast<int>(kProblems / kRandomPeriod));
  }
}

TEST_CASE("kernels refuse of random problems what is expected of them, those of GPUs too") {
  ThreadPool pool(1);
  Device cpu;
  cpu.pool = &pool;
  for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
    for (std::uint64_t seed = 1; seed <= 500; ++seed) {
      ProblemShape const shape = random_problem_shape(seed, operation);
      ProblemCopy const view = shape.copy();
      Problem const problem = api::canonical_problem(&view.c, std::pmr::new_delete_resource());
      CAPTURE(shape.describe());
      for (KernelRef const& kernel : all_kernels()) {
        std::string const id = kernel.variant->id;
        CAPTURE(id);
        for (Device const& device : {cpu, h200()}) {
          std::string const expected = expected_reason(!device.is_cpu(), id, shape);
          Reason const reason = kernel.family->model.reject(*kernel.variant, problem, device);
          CHECK(reason_text(reason) == (expected.empty() ? "accepted" : expected));
        }
      }
    }
  }
}
