// Many callers at once, and a process that forks.

#include "support/case_file.h"
#include "support/runner.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

using namespace msda::test;

namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kCalls = 1'000;
#else
constexpr int kCalls = 10'000;
#endif

// One caller: plans to use and what they must give.
struct Work {
  TestProblem problem;
  std::string kernel_id;
  RunResult expected;
};

std::vector<Work> make_work(TestHandle const& handle) {
  std::vector<Work> work;
  for (const char* const name : {"dfine", "rtdetr", "odd_channels"}) {
    for (ProblemShape shape : corpus_case(name).shapes()) {
      for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
        shape.operation = operation;
        if (shape.backward() && shape.value_dtype != MSDA_DTYPE_F32) continue;
        shape.query_count = shape.head_count = 2;  // short calls meet more often
        TestProblem const problem = corpus_case(name).make(shape);
        for (std::string const& id : accepting_kernels(handle, shape)) {
          if (id.starts_with("ref.") && shape.value_dtype != MSDA_DTYPE_F32) continue;
          work.push_back({problem, id, run(TestHandle(1), problem, id)});
          REQUIRE(work.back().expected.failure == "");
        }
      }
    }
  }
  return work;
}

bool as_expected(CallBuffers& buffers, Work const& work) {
  for (TensorRow const& row : tensor_rows()) {
    if (!row.is_result() || !row.belongs_to(work.problem.shape)) continue;
    if (buffers.tensor(row.id).bits() != work.expected.bits[static_cast<std::size_t>(row.id)])
      return false;
  }
  return true;
}

// `caller_count` threads share the handle; each takes the plans in turn, with buffers of its own.
int count_wrong_calls(std::vector<Work> const& work, std::vector<PlanPtr> const& plans,
                      int caller_count, int call_count) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  int const calls = std::max(call_count / caller_count, 1);
  for (int caller = 0; caller < caller_count; ++caller) {
    callers.emplace_back([&, caller] {
      std::vector<std::unique_ptr<CallBuffers>> buffers(work.size());
      for (int call = 0; call < calls; ++call) {
        std::size_t const which = static_cast<std::size_t>(caller + call) % work.size();
        std::unique_ptr<CallBuffers>& mine = buffers[which];
        if (mine == nullptr) {
          mine = std::make_unique<CallBuffers>(work[which].problem, plans[which].get(),
                                               static_cast<std::uint64_t>(caller));
        }
        mine->poison();
        bool const succeeded =
            msda_execute(plans[which].get(), &mine->c(), nullptr) == MSDA_SUCCESS;
        if (!succeeded || !as_expected(*mine, work[which])) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  return wrong;
}

// Runs `child` in a forked process; true if it returned true there.
template <typename Child>
bool true_in_child(Child child) {
  pid_t const pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) _exit(child() ? 0 : 1);
  int status = 0;
  REQUIRE(waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

TEST_CASE("many callers of one handle get what one caller gets") {
  for (std::int32_t const pool_threads : {1, 3}) {
    TestHandle const handle(pool_threads);
    std::vector<Work> const work = make_work(handle);
    std::vector<PlanPtr> plans;
    for (Work const& item : work) {
      plans.push_back(make_plan(handle, item.problem.shape, item.kernel_id).plan);
    }
    for (int const callers : {1, 2, 3, 7, 10, 64}) {
      CAPTURE(pool_threads);
      CAPTURE(callers);
      // Without helpers there is little that could go wrong.
      int const calls = pool_threads == 1 ? kCalls / 10 : kCalls;
      CHECK(count_wrong_calls(work, plans, callers, calls) == 0);
    }
  }
}

TEST_CASE("callers make and end plans and handles at once") {
  TestHandle const shared(2);
  Work const work = make_work(shared).front();
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 10; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < kCalls / 200; ++i) {
        bool const own = (caller + i) % 3 == 0;
        TestHandle const mine(own ? 2 : 1);
        RunResult const result = run(own ? mine : shared, work.problem, work.kernel_id);
        if (!result.same_bits(work.expected)) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("after fork a handle of one thread works, one of more is refused and a new one works") {
  for (std::int32_t const threads : {1, 2, 3}) {
    TestHandle const handle(threads);
    TestProblem const problem = corpus_case("dfine").make(corpus_case("dfine").shape);
    PlanResult const plan = make_plan(handle, problem.shape, "");
    CallBuffers buffers(problem, plan.plan.get(), 0);
    RunResult const expected = run(handle, problem, "");
    REQUIRE(expected.failure == "");
    CHECK(true_in_child([&] {
      if (threads == 1) return run(handle, problem, "").same_bits(expected);
      return msda_execute(plan.plan.get(), &buffers.c(), nullptr) == MSDA_ERROR_INVALID_ARGUMENT &&
             std::strstr(msda_last_error(), "fork") != nullptr && buffers.check_untouched().empty();
    }));
#if !defined(__SANITIZE_THREAD__)  // which does not let a forked child start threads
    CHECK(true_in_child([&] { return run(TestHandle(threads), problem, "").same_bits(expected); }));
#endif
    // Ending the old one in the child is allowed, and does not wait for threads that are not there.
    TestHandle const idle(threads);
    CHECK(true_in_child([&] {
      msda_handle_destroy(idle.get());
      return true;
    }));
    CHECK(run(handle, problem, "").same_bits(expected));
  }
}
