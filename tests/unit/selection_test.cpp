// The registry's list and how kernels are ranked.

#include "api/objects.h"
#include "core/build_config.h"
#include "cpu/thread_pool.h"
#include "plan/selector.h"
#include "registry.h"

#include "support/h200.h"
#include "support/source_path.h"
#include "support/test_problem.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

using namespace msda;

namespace {

Problem problem_of(msda_dtype value_dtype) {
  Problem problem(std::pmr::new_delete_resource());
  problem.batch = problem.query_count = problem.head_count = 2;
  problem.head_dim = 8;
  problem.token_count = 6;
  problem.point_total = 3;
  problem.levels.push_back({2, 3, 0, 3, 0, 0, 3});
  problem.value_dtype = value_dtype;
  return problem;
}

Device cpu_device(ThreadPool& pool) {
  Device device;
  device.pool = &pool;
  device.thread_count = pool.thread_count();
  device.name = "cpu";
  return device;
}

// How many reasons the source has: counted, so that no new one is left out.
std::int32_t reasons_in_source() {
  std::ifstream table(msda::test::source_path("src/core/reasons.inc"));
  std::int32_t count = 0;
  for (std::string line; std::getline(table, line);) {
    if (line.starts_with("MSDA_REASON(k")) ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("kernel ids are unique and found again") {
  std::set<std::string_view> ids;
  for (KernelRef const& kernel : all_kernels()) {
    REQUIRE(kernel.variant != nullptr);
    std::string_view const id = kernel.variant->id;
    CHECK(ids.insert(id).second);
    CHECK(find_kernel(id).variant == kernel.variant);
    CHECK(find_kernel(id).family == kernel.family);
    CHECK(id.starts_with(std::string(kernel.family->model.name) + "."));
  }
  CHECK(ids.size() == all_kernels().size());
  CHECK_FALSE(ids.empty());
  CHECK(find_kernel("ref.cpu").variant == nullptr);
  CHECK(find_kernel("").family == nullptr);
}

TEST_CASE("every reason has words of its own") {
  std::int32_t const count = reasons_in_source();
  REQUIRE(count > 10);
  std::set<std::string_view> texts;
  for (std::int32_t i = 0; i < count; ++i) {
    CAPTURE(i);
    CHECK(texts.insert(reason_text(static_cast<Reason>(i))).second);
  }
  CHECK_FALSE(texts.contains("unknown reason"));
  CHECK(reason_text(static_cast<Reason>(count)) == "unknown reason");
}

TEST_CASE("accepting kernels come first by predicted time") {
  ThreadPool pool(1);
  Device const device = cpu_device(pool);
  for (msda_dtype const dtype :
       {MSDA_DTYPE_F32, MSDA_DTYPE_F16, MSDA_DTYPE_BF16, MSDA_DTYPE_F8_E4M3, MSDA_DTYPE_F64}) {
    std::vector<Ranked> const ranking = rank_kernels(problem_of(dtype), device, 0);
    REQUIRE(ranking.size() == all_kernels().size());
    auto const accepts = [](Ranked const& r) { return r.rejected == Reason::kNone; };
    auto const first_rejected = std::find_if_not(ranking.begin(), ranking.end(), accepts);
    CHECK(std::none_of(first_rejected, ranking.end(), accepts));
    CHECK(first_rejected != ranking.begin());
    CHECK(std::is_sorted(ranking.begin(), first_rejected, [](Ranked const& a, Ranked const& b) {
      return a.predicted_us < b.predicted_us;
    }));
    std::set<std::string_view> ids;
    for (Ranked const& entry : ranking) ids.insert(entry.kernel.variant->id);
    CHECK(ids.size() == all_kernels().size());
  }
}

TEST_CASE("kernels for scattered points, or local ones, are chosen where the problem says so" *
          doctest::skip(MSDA_HAS_CUDA == 0)) {
  msda::test::ProblemShape shape;
  shape.levels = command::make_levels({100, 167, 50, 84, 25, 42, 13, 21}, {4});
  shape.batch = 2;
  shape.query_count = 22223;
  shape.head_count = 8;
  shape.head_dim = 32;
  shape.set_dtypes(MSDA_DTYPE_F16);
  auto const first_with = [&shape](msda_point_locality locality) {
    shape.point_locality = locality;
    ProblemCopy const view = shape.copy();
    Problem const problem = api::canonical_problem(&view.c, std::pmr::new_delete_resource());
    std::vector<Ranked> ranking = rank_kernels(problem, msda::test::h200(), 0);
    std::erase_if(ranking, [](Ranked const& r) { return r.rejected != Reason::kNone; });
    bool const is_scattered = locality == MSDA_POINTS_SCATTERED;
    bool const is_local = locality == MSDA_POINTS_LOCAL;
    int for_scattered = 0, for_local = 0;
    std::erase_if(ranking, [&](Ranked const& ranked) {
      Variant const& variant = *ranked.kernel.variant;
      for_scattered += variant.for_scattered_points ? 1 : 0;
      for_local += variant.for_local_points ? 1 : 0;
      CHECK(ranked.may_be_chosen ==
            (!variant.unproven && (is_scattered || !variant.for_scattered_points) &&
             (is_local || !variant.for_local_points)));
      return !ranked.may_be_chosen;
    });
    CHECK(for_scattered > 0);
    CHECK((for_local > 0) == (shape.math_mode == MSDA_MATH_FAST));
    CHECK(std::ranges::is_sorted(ranking, {}, &Ranked::predicted_us));
    return std::string(ranking.front().kernel.variant->id);
  };
  CHECK(first_with(MSDA_POINTS_SCATTERED).find(".s1c@") != std::string::npos);
  CHECK(first_with(MSDA_POINTS_UNKNOWN).find(".s1@") != std::string::npos);
  CHECK(first_with(MSDA_POINTS_LOCAL) == first_with(MSDA_POINTS_UNKNOWN));
  shape.math_mode = MSDA_MATH_FAST;
  CHECK(first_with(MSDA_POINTS_SCATTERED).find(".h1c@") != std::string::npos);
  CHECK(first_with(MSDA_POINTS_UNKNOWN).find(".h1@") != std::string::npos);
  CHECK(first_with(MSDA_POINTS_LOCAL).find(".win.h.") != std::string::npos);
  // One query more: they are no grid's.
  ++shape.query_count;
  CHECK(first_with(MSDA_POINTS_LOCAL).find(".h1@") != std::string::npos);
}

TEST_CASE("a last resort is chosen where no other kernel takes the problem, whatever its time") {
  ThreadPool pool(1);
  Device const device = cpu_device(pool);
  auto const is_last_resort = [](Ranked const& r) { return r.kernel.variant->last_resort; };
  for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
    for (std::int64_t const queries : {0, 1, 10}) {
      // Many pixels and few points: the last resort's time may well be predicted to be less.
      Problem problem = problem_of(MSDA_DTYPE_F32);
      problem.operation = operation;
      problem.query_count = queries;
      problem.levels.front() = {1000, 1000, 0, 1000, 0, 0, 3};
      problem.token_count = 1'000'000;
      CAPTURE(operation);
      CAPTURE(queries);
      std::vector<Ranked> ranking = rank_kernels(problem, device, 0);
      CHECK_FALSE(is_last_resort(ranking.front()));
      auto const last = std::ranges::find_if(ranking, is_last_resort);
      REQUIRE(last->rejected == Reason::kNone);
      CHECK_FALSE(last->may_be_chosen);
      CHECK(explain_text({*last}).ends_with(
          ", only chosen where no other kernel takes the problem\n"));
      problem.value_dtype = MSDA_DTYPE_F64;  // which nothing else takes
      ranking = rank_kernels(problem, device, 0);
      CHECK(is_last_resort(ranking.front()));
      CHECK(ranking.front().may_be_chosen);
    }
  }
}

TEST_CASE("the predicted time of a backward counts the gradients that no point reaches") {
  ThreadPool pool(1);
  Device const device = cpu_device(pool);
  for (char const* const id : {"ref.cpu@1", "simd.cpu.f32@2"}) {
    Problem problem = problem_of(MSDA_DTYPE_F32);
    problem.operation = MSDA_BACKWARD;
    double const few = judge(find_kernel(id), problem, device, 0).predicted_us;
    problem.levels.front() = {1000, 1000, 0, 1000, 0, 0, 3};
    problem.token_count = 1'000'000;
    // 32 million numbers, which no core writes at 100 GB/s.
    CHECK(judge(find_kernel(id), problem, device, 0).predicted_us > few + 1000);
  }
}

TEST_CASE("a limit on the workspace rejects what needs more") {
  ThreadPool pool(1);
  Device const device = cpu_device(pool);
  Problem const problem = problem_of(MSDA_DTYPE_F64);
  KernelRef const ref = find_kernel("ref.cpu@1");
  std::size_t const needed = judge(ref, problem, device, 0).workspace_bytes;
  REQUIRE(needed > 1);
  CHECK(judge(ref, problem, device, needed).rejected == Reason::kNone);
  CHECK(judge(ref, problem, device, needed - 1).rejected == Reason::kWorkspaceLimit);
  CHECK(rank_kernels(problem, device, 1).front().rejected != Reason::kNone);
}

TEST_CASE("CPU kernels refuse a GPU") {
  for (KernelRef const& kernel : all_kernels()) {
    if (kernel.variant->sm_min != 0) continue;
    CHECK(judge(kernel, problem_of(MSDA_DTYPE_F32), msda::test::h200(), 0).rejected ==
          Reason::kDeviceIsCuda);
  }
}

TEST_CASE("atomic additions are chosen for a decoder without determinism, not for an encoder" *
          doctest::skip(MSDA_HAS_CUDA == 0)) {
  msda::test::ProblemShape shape;
  shape.levels = {{80, 80, 4}, {40, 40, 4}, {20, 20, 4}};
  shape.operation = MSDA_BACKWARD;
  shape.head_count = 8;
  shape.head_dim = 32;
  shape.set_dtypes(MSDA_DTYPE_F32);
  for (std::int64_t const queries : {300, 8400}) {
    shape.query_count = queries;
    ProblemCopy view = shape.copy();
    for (msda_determinism const determinism : {MSDA_NONDETERMINISTIC, MSDA_DETERMINISTIC}) {
      view.c.determinism = determinism;
      Problem const problem = api::canonical_problem(&view.c, std::pmr::new_delete_resource());
      std::string const id =
          rank_kernels(problem, msda::test::h200(), 0).front().kernel.variant->id;
      CAPTURE(id);
      CHECK(id.starts_with("atomic.") == (queries == 300 && determinism == MSDA_NONDETERMINISTIC));
    }
  }
}

TEST_CASE("a kernel that is not deterministic takes only problems that do not ask for it") {
  auto const accept = [](Variant const&, Problem const&, Device const&) { return Reason::kNone; };
  auto const no_cost = [](const double*, Variant const&, Problem const&, Device const&) {
    return 1.0;
  };
  Variant const variant{.id = "loose", .value_dtype = MSDA_DTYPE_F32, .not_deterministic = true};
  FamilyModel const model{"fake", {&variant, 1}, accept, no_cost};
  Family const family{model, nullptr};
  Problem problem = problem_of(MSDA_DTYPE_F32);
  CHECK(judge({&family, &variant}, problem, Device(), 0).rejected == Reason::kDeterminism);
  problem.determinism = MSDA_NONDETERMINISTIC;
  CHECK(judge({&family, &variant}, problem, Device(), 0).rejected == Reason::kNone);
}
