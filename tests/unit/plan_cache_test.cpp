// Plugins find the plan of a problem again, for no other problem, and keep no more than they
// should.

#include "plugins/common/plan_cache.h"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <set>
#include <thread>
#include <vector>

using msda::plugins::plan_key;
using msda::plugins::PlanCache;
using msda::plugins::Prepared;

namespace {

constexpr std::array<std::int32_t, 2> kLevel{2, 3};

msda_handle_options cpu() {
  auto options = msda::make<msda_handle_options>();
  options.device = MSDA_DEVICE_CPU;
  options.thread_count = 1;
  return options;
}

msda_plan_options no_limits() { return msda::make<msda_plan_options>(); }

msda_problem problem_of(std::int64_t queries) {
  auto problem = msda::make<msda_problem>();
  problem.level_hw = kLevel.data();
  problem.level_count = 1;
  problem.point_count = 1;
  problem.batch = 1;
  problem.query_count = queries;
  problem.head_count = 1;
  problem.head_dim = 1;
  problem.value_dtype = MSDA_DTYPE_F32;
  return problem;
}

// Each query samples the middle of the pixel whose value is 4.
std::vector<float> outputs(const Prepared& prepared, std::int64_t queries) {
  const std::array<float, 6> value{0, 1, 2, 3, 4, 5};
  std::vector<float> coord, weight(static_cast<std::size_t>(queries), 1.0F);
  for (std::int64_t i = 0; i < queries; ++i) coord.insert(coord.end(), {0.5F, 0.75F});
  std::vector<float> output(weight.size(), -1.0F);
  auto tensors = msda::make<msda_tensors>();
  tensors.value = value.data();
  tensors.coord = coord.data();
  tensors.weight = weight.data();
  tensors.output = output.data();
  msda::Workspace workspace(prepared.plan);
  workspace.attach(tensors);
  prepared.plan.execute(tensors);
  return output;
}

bool is_right(const Prepared& prepared, std::int64_t queries) {
  return outputs(prepared, queries) == std::vector<float>(static_cast<std::size_t>(queries), 4.0F);
}

// The keys of copies of a struct with one byte changed each. The bytes of pointers are left out,
// since what they point to counts.
template <typename Struct, typename Key>
void insert_changed(std::set<std::string>& keys, const Struct& given,
                    std::set<std::size_t> pointers, Key key) {
  for (std::size_t byte = 0; byte < sizeof(Struct); ++byte) {
    if (pointers.count(byte / sizeof(void*) * sizeof(void*)) != 0) continue;
    std::array<unsigned char, sizeof(Struct)> bytes{};
    std::memcpy(bytes.data(), &given, sizeof(Struct));
    bytes[byte] ^= 0x40;
    Struct changed;
    std::memcpy(&changed, bytes.data(), sizeof(Struct));
    const bool is_new = keys.insert(key(changed)).second;
    CHECK_MESSAGE(is_new, "byte " << byte);
  }
}

}  // namespace

TEST_CASE("each byte of a problem, of options and of a device makes another key") {
  auto problem = problem_of(1);
  problem.level_hw = nullptr;  // a changed level_count would read behind the array
  const auto options = no_limits();
  const auto device = cpu();
  std::set<std::string> keys{plan_key(problem, options, device)};
  insert_changed(keys, problem,
                 {offsetof(msda_problem, level_hw), offsetof(msda_problem, point_counts),
                  offsetof(msda_problem, query_hw), offsetof(msda_problem, level_start)},
                 [&](const msda_problem& changed) { return plan_key(changed, options, device); });
  insert_changed(
      keys, options, {offsetof(msda_plan_options, kernel_id)},
      [&](const msda_plan_options& changed) { return plan_key(problem, changed, device); });
  insert_changed(keys, device, {}, [&](const msda_handle_options& changed) {
    return plan_key(problem, options, changed);
  });
  CHECK(keys.size() == 1 + sizeof(problem) + sizeof(options) + sizeof(device) - 5 * sizeof(void*));
}

TEST_CASE("what pointers point to makes the key, not where it is") {
  const std::array<std::int32_t, 2> same{2, 3}, grid{1, 1}, other{3, 2};
  const std::array<std::int32_t, 1> points{1}, no_points{0};
  const std::array<std::int64_t, 1> start{0}, later{7};
  std::vector<msda_problem> different(8, problem_of(1));
  for (auto& problem : different) problem.query_grid_count = 1;
  different[1].level_hw = other.data();
  different[2].point_counts = points.data();
  different[3].point_counts = no_points.data();
  different[4].query_hw = grid.data();
  different[5].query_hw = other.data();
  different[6].level_start = start.data();
  different[7].level_start = later.data();
  auto named = no_limits();
  std::set<std::string> keys;
  for (const char* const id : {static_cast<const char*>(nullptr), "", "ref.cpu@1", "ref.cpu@"}) {
    named.kernel_id = id;
    for (const auto& problem : different) keys.insert(plan_key(problem, named, cpu()));
  }
  CHECK(keys.size() == 4 * different.size());
  auto moved = different[0];
  moved.level_hw = same.data();
  CHECK(plan_key(moved, no_limits(), cpu()) == plan_key(different[0], no_limits(), cpu()));
}

TEST_CASE("a plan is made once and is right after the cache has dropped it") {
  PlanCache cache(4);
  const auto first = cache.get(problem_of(1), no_limits(), cpu());
  CHECK(cache.get(problem_of(1), no_limits(), cpu()) == first);
  CHECK(cache.size() == 1);
  for (std::int64_t queries = 2; queries < 20; ++queries) {
    const auto plan = cache.get(problem_of(queries), no_limits(), cpu());
    CHECK(is_right(*plan, queries));
    CHECK(cache.get(problem_of(queries), no_limits(), cpu()) == plan);
    CHECK(cache.size() <= 4);
  }
  CHECK(cache.get(problem_of(1), no_limits(), cpu()) != first);
  CHECK(is_right(*first, 1));
}

TEST_CASE("a plan that is used stays") {
  PlanCache cache(4);
  const auto used = cache.get(problem_of(1), no_limits(), cpu());
  for (std::int64_t queries = 2; queries < 20; ++queries) {
    cache.get(problem_of(queries), no_limits(), cpu());
    CHECK(cache.get(problem_of(1), no_limits(), cpu()) == used);
  }
}

TEST_CASE("a failure has the library's message and leaves nothing") {
  PlanCache cache;
  auto problem = problem_of(1);
  problem.batch = -1;
  CHECK_THROWS_WITH_AS(cache.get(problem, no_limits(), cpu()), doctest::Contains("batch is -1"),
                       msda::Error);
  auto device = cpu();
  device.thread_count = -1;
  CHECK_THROWS_WITH_AS(cache.get(problem_of(1), no_limits(), device),
                       doctest::Contains("thread_count is -1"), msda::Error);
  CHECK(cache.size() == 0);
  CHECK(is_right(*cache.get(problem_of(1), no_limits(), cpu()), 1));
}

TEST_CASE("threads share one plan of a problem") {
  PlanCache cache(8);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&cache, &right, thread] {
      for (int call = 0; call < 200; ++call) {
        const std::int64_t queries = 1 + (call * (1 + thread)) % 11;  // some more than the limit
        right += is_right(*cache.get(problem_of(queries), no_limits(), cpu()), queries);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(right == 800);
  CHECK(cache.size() <= 8);
  CHECK(cache.get(problem_of(3), no_limits(), cpu()) ==
        cache.get(problem_of(3), no_limits(), cpu()));
}
