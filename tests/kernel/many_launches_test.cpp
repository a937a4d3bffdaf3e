// Thousands of launches of each family on random problems, one behind the other: none hangs, and
// the bits of a plan's results stay the same.

#include "core/build_config.h"

#if MSDA_HAS_CUDA
#include "support/expected_reason.h"
#include "support/gpu_memory.h"
#include "support/gpu_tests.h"
#include "support/hang.h"
#include "support/kernel_limits.h"
#include "support/random_problem.h"
#include "support/runner.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace msda::test;

namespace {

constexpr int kLaunches = kGpuIsSimulated ? 12 : 10000;  // of a family, at least
constexpr int kLaunchesOfPlan = kGpuIsSimulated ? 3 : 10;

// Ends the program where nothing is reported for kHangLimit: a kernel that waits for ever cannot be
// stopped otherwise.
class Watchdog {
 public:
  Watchdog() : thread_([this] { watch(); }) {}
  ~Watchdog() {
    report("");
    thread_.join();
  }
  // What begins now; "": nothing more does.
  void report(std::string const& what) {
    std::lock_guard const lock(mutex_);
    what_ = what;
    ++reports_;
    changed_.notify_one();
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    while (reports_ == 0 || !what_.empty()) {
      int const seen = reports_;
      if (changed_.wait_for(lock, kHangLimit, [&] { return reports_ != seen; })) continue;
      fmt::print("no launch has ended for {} minutes: {}\n", kHangLimit.count(), what_);
      std::fflush(stdout);
      std::abort();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_ = "the first";
  int reports_ = 0;
  std::thread thread_;
};

struct Launches {
  int launches = 0;
  int plans = 0;
  std::set<std::string> kernels;
};

std::string family_of(std::string const& id) { return KernelId(id).family(); }

// The kernel of each family that takes the problem and has had fewest launches.
std::vector<std::string> kernels_for(TestHandle const& handle, ProblemShape const& shape,
                                     std::map<std::string, int> const& taken) {
  std::map<std::string, std::string> chosen;
  auto const count = [&](std::string const& id) {
    auto const at = taken.find(id);
    return at == taken.end() ? 0 : at->second;
  };
  for (std::string const& id : kernel_ids(handle)) {
    if (!is_for_gpu(id) || !expected_reason(handle, id, shape).empty()) continue;
    std::string& best = chosen[family_of(id)];
    if (best.empty() || count(id) < count(best)) best = id;
  }
  std::vector<std::string> ids;
  for (auto const& [family, id] : chosen) ids.push_back(id);
  return ids;
}

void launch_many(TestHandle const& handle, TestProblem const& problem, std::string const& id) {
  CAPTURE(id);
  PlanResult const plan = make_plan(handle, problem.shape, id);
  REQUIRE(plan.status == MSDA_SUCCESS);
  CallBuffers buffers(problem, plan.plan.get(), 0);
  GpuCall call(plan.plan.get(), buffers);
  std::vector<std::uint64_t> const hashes = call.hash_runs(kLaunchesOfPlan, nullptr, [&] {
    return msda_execute(plan.plan.get(), &call.c(), nullptr) == MSDA_SUCCESS;
  });
  CHECK(hashes.size() == static_cast<std::size_t>(kLaunchesOfPlan));
  if (is_deterministic(id)) CHECK(std::ranges::count(hashes, hashes[0]) == kLaunchesOfPlan);
}

}  // namespace

TEST_CASE("thousands of launches of each family end, on the GPU" * needs_gpu()) {
  TestHandle const handle(gpu_options());
  std::set<std::string> families;
  for (std::string const& id : kernel_ids(handle)) {
    if (is_for_gpu(id)) families.insert(family_of(id));
  }
  REQUIRE(!families.empty());
  std::map<std::string, Launches> all;
  std::map<std::string, int> taken;
  Watchdog watchdog;
  auto const is_enough = [&] {
    return std::ranges::all_of(
        families, [&](std::string const& family) { return all[family].launches >= kLaunches; });
  };
  for (std::uint64_t seed = random_range(1).first; !is_enough(); ++seed) {
    msda_operation const operation = seed % 2 == 0 ? MSDA_FORWARD : MSDA_BACKWARD;
    ProblemShape const shape = random_problem_shape(seed, operation);
    std::vector<std::string> ids = kernels_for(handle, shape, taken);
    std::erase_if(ids,
                  [&](std::string const& id) { return all[family_of(id)].launches >= kLaunches; });
    if (ids.empty()) continue;
    TestProblem const problem = random_problem(seed, operation);
    for (std::string const& id : ids) {
      std::string const what = fmt::format("{}, problem {}", id, seed);
      CAPTURE(what);
      watchdog.report(what);
      launch_many(handle, problem, id);
      ++taken[id];
      Launches& family = all[family_of(id)];
      family.launches += kLaunchesOfPlan;
      ++family.plans;
      family.kernels.insert(id);
    }
  }
  for (auto const& [family, launches] : all) {
    fmt::print("[launch ] {}: {} launches of {} plans of {} kernels ended\n", family,
               launches.launches, launches.plans, launches.kernels.size());
  }
}

#endif
