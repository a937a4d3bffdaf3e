// Memory that runs out, at every place in turn, and the promise that executing needs none.

#include "support/allocation_watch.h"
#include "support/case_file.h"
#include "support/counting_allocator.h"
#include "support/kernel_cases.h"
#include "support/runner.h"

#include <doctest/doctest.h>

using namespace msda::test;

namespace {

// A problem of several levels and grids, so that a plan has tables to allocate.
TestProblem sample_problem(msda_operation operation) {
  ProblemShape shape = corpus_case("encoder_grid").shape;
  shape.operation = operation;
  return corpus_case("encoder_grid").make(shape);
}

std::vector<std::uint8_t> serialize(msda_plan const* plan) {
  std::size_t bytes = 0;
  REQUIRE(msda_plan_serialize(plan, nullptr, &bytes) == MSDA_SUCCESS);
  std::vector<std::uint8_t> blob(bytes);
  REQUIRE(msda_plan_serialize(plan, blob.data(), &bytes) == MSDA_SUCCESS);
  return blob;
}

// Runs `create` with its k-th allocation failing, k = 1 until it succeeds. `create` returns the
// status and cleans up after itself.
template <typename Create>
std::int64_t fail_each_allocation(CountingAllocator& allocator, Create create) {
  std::size_t const live_before = allocator.live_blocks();
  for (std::int64_t k = 1;; ++k) {
    CAPTURE(k);
    allocator.fail_at(k);
    msda_status const status = create();
    allocator.fail_at(0);
    CHECK(allocator.complaint() == "");
    CHECK(allocator.live_blocks() == live_before);
    if (status == MSDA_SUCCESS) return k - 1;
    REQUIRE(status == MSDA_ERROR_OUT_OF_MEMORY);
    CHECK(std::string(msda_last_error()).find("memory") != std::string::npos);
    CHECK(create() == MSDA_SUCCESS);
    REQUIRE(k < 1000);
  }
}

}  // namespace

TEST_CASE("every allocation of a handle fails in turn") {
  CountingAllocator allocator;
  msda_handle_options options = cpu_options(3);
  allocator.install(options);
  std::int64_t const places = fail_each_allocation(allocator, [&] {
    auto* handle = reinterpret_cast<msda_handle*>(0x5);  // must stay when there is none
    msda_status const status = msda_handle_create(&options, &handle);
    if (status == MSDA_SUCCESS) msda_handle_destroy(handle);
    if (status != MSDA_SUCCESS) CHECK(handle == reinterpret_cast<msda_handle*>(0x5));
    return status;
  });
  CHECK(places >= 1);
  CHECK(allocator.live_blocks() == 0);
}

TEST_CASE("every allocation of a plan fails in turn") {
  CountingAllocator allocator;
  msda_handle_options options = cpu_options(2);
  allocator.install(options);
  {
    TestHandle const handle(options);
    for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
      TestProblem const problem = sample_problem(operation);
      for (std::string const& id : accepting_kernels(handle, problem.shape)) {
        CAPTURE(id);
        RunResult const expected = run(handle, problem, id);
        REQUIRE(expected.failure == "");
        std::vector<std::uint8_t> const blob =
            serialize(make_plan(handle, problem.shape, id).plan.get());
        std::int64_t const places = fail_each_allocation(
            allocator, [&] { return make_plan(handle, problem.shape, id).status; });
        CHECK(places >= 2);  // the plan and its levels at least
        std::int64_t const restored = fail_each_allocation(allocator, [&] {
          auto* plan = reinterpret_cast<msda_plan*>(0x5);
          msda_status const status =
              msda_plan_deserialize(handle.get(), blob.data(), blob.size(), &plan);
          if (status == MSDA_SUCCESS) msda_plan_destroy(plan);
          if (status != MSDA_SUCCESS) CHECK(plan == reinterpret_cast<msda_plan*>(0x5));
          return status;
        });
        CHECK(restored >= 2);
        CHECK(run(handle, problem, id).same_bits(expected));
      }
    }
  }
  CHECK(allocator.live_blocks() == 0);
  CHECK(allocator.complaint() == "");
}

TEST_CASE("every allocation of the library's own fails in turn") {
  if (!can_fail_allocations()) return;  // counted, not failed, in a sanitized build
  TestHandle const handle(1);
  TestProblem const problem = sample_problem(MSDA_FORWARD);
  ProblemView const view(problem.shape);
  std::vector<std::uint8_t> const blob = serialize(make_plan(handle, problem.shape, "").plan.get());
  auto const fail_each = [](auto call) {
    int out_of_memory = 0;
    for (std::int64_t k = 1; k < 10'000; ++k) {
      msda_status status = MSDA_SUCCESS;
      bool happened = false;
      {
        AllocationFault const fault(k);
        status = call();
        happened = fault.happened();
      }
      if (!happened) {
        CHECK(status == MSDA_SUCCESS);
        CHECK(out_of_memory > 0);
        return;
      }
      CAPTURE(k);
      // Some can do without: the standard library's sorting, for one.
      CHECK((status == MSDA_ERROR_OUT_OF_MEMORY || status == MSDA_SUCCESS));
      out_of_memory += status == MSDA_ERROR_OUT_OF_MEMORY ? 1 : 0;
    }
    FAIL("it never succeeds");
  };
  fail_each([] {
    msda_handle_options const options = cpu_options(1);
    msda_handle* created = nullptr;
    msda_status const status = msda_handle_create(&options, &created);
    msda_handle_destroy(created);
    return status;
  });
  fail_each([&] {
    msda_plan* plan = nullptr;
    msda_status const status = msda_plan_create(handle.get(), &view.c, nullptr, &plan);
    msda_plan_destroy(plan);
    return status;
  });
  fail_each([&] {
    msda_plan* plan = nullptr;
    msda_status const status = msda_plan_deserialize(handle.get(), blob.data(), blob.size(), &plan);
    msda_plan_destroy(plan);
    return status;
  });
  fail_each([&] {
    std::size_t bytes = 0;
    return msda_explain(handle.get(), &view.c, nullptr, &bytes);
  });
  PlanResult const plan = make_plan(handle, problem.shape, "");
  fail_each([&] {
    std::size_t bytes = 0;
    return msda_plan_serialize(plan.plan.get(), nullptr, &bytes);
  });
}

TEST_CASE("execute allocates nothing") {
  for (std::int32_t const threads : {1, 3}) {
    TestHandle const handle(threads);
    for_kernels_and_cases(handle,
                          {"encoder", "decoder", "odd_coords", "many_points", "padded_rows"},
                          [&](TestProblem const& problem, std::string const& id) {
                            PlanResult const plan = make_plan(handle, problem.shape, id);
                            CallBuffers buffers(problem, plan.plan.get(), 0);
                            msda_status status = MSDA_SUCCESS;
                            std::int64_t count = 0;
                            {
                              AllocationWatch const watch;
                              for (int i = 0; i < 3; ++i)
                                status |= msda_execute(plan.plan.get(), &buffers.c(), nullptr);
                              count = watch.count();
                            }
                            CHECK(status == MSDA_SUCCESS);
                            CHECK(count == 0);
                          });
  }
  // The watch itself works.
  AllocationWatch const watch;
  std::vector<int> const seen(static_cast<std::size_t>(watch.count()) + 1);
  CHECK(watch.count() == static_cast<std::int64_t>(seen.size()));
}
