// Memory that runs out, at every place in turn, and the promise that executing needs none.

#include "support/allocation_watch.h"
#include "support/case_file.h"
#include "support/counting_allocator.h"
#include "support/expected_reason.h"
#include "support/gpu_memory.h"
#include "support/gpu_tests.h"
#include "support/kernel_cases.h"
#include "support/runner.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

using namespace msda::test;

namespace {

// Whose allocations fail: a handle's that has the allocator.
struct Place {
  explicit Place(msda_handle_options const& with) : allocator(with.device), options(with) {
    allocator.install(options);
  }
  CountingAllocator allocator;
  msda_handle_options options;
};

// Problems have several levels and grids, and more levels than fit a kernel's arguments: plans have
// tables to allocate. GPU kernels sum up gradients of their type in a workspace.
std::vector<TestProblem> sample_problems() {
  std::vector<TestProblem> problems;
  for (const char* const name : {"encoder_grid", "many_levels"}) {
    for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
      ProblemShape shape = corpus_case(name).shape;
      std::vector<LevelShape> const levels = shape.levels;
      if (levels.size() > 8) shape.levels.insert(shape.levels.end(), levels.begin(), levels.end());
      shape.set_dtypes(MSDA_DTYPE_F16);
      shape.operation = operation;
      problems.push_back(corpus_case(name).make(shape));
    }
  }
  return problems;
}

std::string memory_of(std::int32_t device) {
  return device < 0 ? "host memory" : fmt::format("memory of CUDA device {}", device);
}

// Runs `create` with its k-th allocation failing, k = 1 until none fails. `create` returns the
// status and cleans up after itself. Returns how many allocations there are.
enum class Failing { kAlways, kUnlessItDoesWithout };
template <typename Create>
std::int64_t fail_each_allocation(CountingAllocator& allocator, Create create,
                                  Failing failing = Failing::kAlways) {
  std::size_t const live_before = allocator.live_blocks();
  for (std::int64_t k = 1;; ++k) {
    CAPTURE(k);
    allocator.fail_at(k);
    msda_status const status = create();
    std::string const message = status == MSDA_SUCCESS ? "" : msda_last_error();
    bool const has_failed = allocator.has_failed();
    allocator.fail_at(0);
    CHECK(allocator.complaint() == "");
    CHECK(allocator.live_blocks() == live_before);
    if (!has_failed) {
      REQUIRE(status == MSDA_SUCCESS);
      return k - 1;
    }
    REQUIRE(k < 1000);
    if (status == MSDA_SUCCESS && failing == Failing::kUnlessItDoesWithout) continue;
    REQUIRE(status == MSDA_ERROR_OUT_OF_MEMORY);
    CAPTURE(message);
    CHECK(message.find(memory_of(allocator.failed_device())) != std::string::npos);
    CHECK(create() == MSDA_SUCCESS);
  }
}

void fail_allocations_of_handle(msda_handle_options const& options) {
  Place place(options);
  std::int64_t const places = fail_each_allocation(place.allocator, [&] {
    auto* handle = reinterpret_cast<msda_handle*>(0x5);  // must stay when there is none
    msda_status const status = msda_handle_create(&place.options, &handle);
    if (status == MSDA_SUCCESS) msda_handle_destroy(handle);
    if (status != MSDA_SUCCESS) CHECK(handle == reinterpret_cast<msda_handle*>(0x5));
    return status;
  });
  CHECK(places >= 1);
  CHECK(place.allocator.live_blocks() == 0);
}

msda_status restore_and_destroy(TestHandle const& handle, std::vector<std::uint8_t> const& blob) {
  auto* plan = reinterpret_cast<msda_plan*>(0x5);
  msda_status const status = msda_plan_deserialize(handle.get(), blob.data(), blob.size(), &plan);
  if (status == MSDA_SUCCESS) msda_plan_destroy(plan);
  if (status != MSDA_SUCCESS) CHECK(plan == reinterpret_cast<msda_plan*>(0x5));
  return status;
}

void fail_allocations_of_plans(msda_handle_options const& options) {
  Place place(options);
  {
    TestHandle const handle(place.options);
    for (TestProblem const& problem : sample_problems()) {
      std::int64_t const gpu_calls_before = place.allocator.gpu_calls();
      for (std::string const& id : accepting_kernels(handle, problem.shape)) {
        CAPTURE(id);
        RunResult const expected = run(handle, problem, id);
        REQUIRE(expected.failure == "");
        std::vector<std::uint8_t> const blob =
            serialize(make_plan(handle, problem.shape, id).plan.get());
        std::int64_t const places = fail_each_allocation(
            place.allocator, [&] { return make_plan(handle, problem.shape, id).status; });
        CHECK(places >= 2);  // the plan and its levels at least
        std::int64_t const restored = fail_each_allocation(
            place.allocator, [&] { return restore_and_destroy(handle, blob); });
        CHECK(restored == places);
        RunResult const again = run(handle, problem, id);
        CHECK(again.failure == "");
        if (is_deterministic(id)) CHECK(again.same_bits(expected));
      }
      bool const has_tables = problem.shape.levels.size() > 16 || !problem.shape.backward();
      CAPTURE(problem.shape.describe());
      if (handle.on_gpu() && has_tables) CHECK(place.allocator.gpu_calls() > gpu_calls_before);
    }
  }
  CHECK(place.allocator.live_blocks() == 0);
  CHECK(place.allocator.complaint() == "");
}

// Allocations that go to no caller's allocator fail; those of the CUDA run-time do not count.
void fail_own_allocations(msda_handle_options const& options) {
  TestHandle const handle(options);
  TestProblem const problem = sample_problems().front();
  ProblemCopy const view = problem.shape.copy();
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
  fail_each([&] {
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

// Its own handle, as the records of tuning stay; the workspace is the library's.
void fail_allocations_of_tuning(msda_handle_options const& options) {
  constexpr double kBudgetMs = 10;
  Place place(options);
  TestHandle const other(options);
  for (TestProblem const& problem : sample_problems()) {
    CAPTURE(problem.shape.describe());
    ProblemCopy const view = problem.shape.copy();
    PlanResult const any = make_plan(other, problem.shape, "");
    CallBuffers buffers(problem, any.plan.get(), 0);
    PlacedCall call(other, any.plan.get(), buffers);
    msda_tensors sample = call.c();
    sample.workspace = nullptr;
    sample.workspace_bytes = 0;
    std::int64_t const gpu_calls_before = place.allocator.gpu_calls();
    std::int64_t const places = fail_each_allocation(
        place.allocator,
        [&] {
          msda_handle* handle = nullptr;
          msda_plan* plan = nullptr;
          msda_status status = msda_handle_create(&place.options, &handle);
          if (status == MSDA_SUCCESS) {
            status = msda_plan_tune(handle, &view.c, nullptr, &sample, nullptr, kBudgetMs, &plan);
          }
          msda_plan_destroy(plan);
          msda_handle_destroy(handle);
          return status;
        },
        Failing::kUnlessItDoesWithout);
    CHECK(places >= 3);  // the handle, the plan and its levels at least
    if (other.on_gpu()) CHECK(place.allocator.gpu_calls() > gpu_calls_before);
    CHECK(call.finish() == "");
    CHECK(buffers.check_written() == "");
  }
  CHECK(place.allocator.live_blocks() == 0);
}

}  // namespace

TEST_CASE("every allocation of a handle fails in turn") {
  fail_allocations_of_handle(cpu_options(3));
}
TEST_CASE("every allocation of a handle fails in turn, on the GPU" * needs_gpu()) {
  fail_allocations_of_handle(gpu_options());
}

TEST_CASE("every allocation of a plan fails in turn") { fail_allocations_of_plans(cpu_options(2)); }
TEST_CASE("every allocation of a plan fails in turn, on the GPU" * needs_gpu()) {
  fail_allocations_of_plans(gpu_options());
}

TEST_CASE("every allocation of tuning fails in turn") {
  fail_allocations_of_tuning(cpu_options(2));
}
TEST_CASE("every allocation of tuning fails in turn, on the GPU" * needs_gpu()) {
  fail_allocations_of_tuning(gpu_options());
}

// In a sanitized build allocations are counted, not failed.
TEST_CASE("every allocation of the library's own fails in turn" *
          doctest::skip(!can_fail_allocations())) {
  fail_own_allocations(cpu_options(1));
}
TEST_CASE("every allocation of the library's own fails in turn, on the GPU" * needs_gpu() *
          doctest::skip(!gpu_available() || !can_fail_allocations())) {
  fail_own_allocations(gpu_options());
}

// The error is so long that the log's formatting would have to allocate.
TEST_CASE("a long error reaches the log where memory runs out" *
          doctest::skip(!can_fail_allocations())) {
  std::string told;
  told.reserve(2000);
  msda_handle_options options = cpu_options(1);
  options.log_level = MSDA_LOG_ERROR;
  options.log_user = &told;
  options.log_fn = [](void* user, msda_log_level, const char* message, std::size_t length) {
    static_cast<std::string*>(user)->assign(message, length);
  };
  TestHandle const handle(options);
  std::string const long_id(900, 'x');
  msda_plan_options plan_options{};
  plan_options.struct_size = sizeof(plan_options);
  plan_options.mode = MSDA_PLAN_FORCED;
  plan_options.kernel_id = long_id.c_str();
  ProblemCopy const view = corpus_case("encoder_grid").shape.copy();
  int out_of_memory = 0;
  for (std::int64_t k = 1;; ++k) {
    CAPTURE(k);
    REQUIRE(k < 1000);
    msda_plan* plan = nullptr;
    msda_status status = MSDA_SUCCESS;
    bool has_failed = false;
    {
      AllocationFault const fault(k);
      status = msda_plan_create(handle.get(), &view.c, &plan_options, &plan);
      has_failed = fault.happened();
    }
    CHECK(told == msda_last_error());
    out_of_memory += status == MSDA_ERROR_OUT_OF_MEMORY ? 1 : 0;
    if (has_failed) continue;
    CHECK(status == MSDA_ERROR_INVALID_ARGUMENT);
    CHECK(told.size() > 900);
    CHECK(out_of_memory > 0);
    return;
  }
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
