// Texts, lists, the log, versions, and how long things live.

#include "support/case_file.h"
#include "support/counting_allocator.h"
#include "support/expected_reason.h"
#include "support/runner.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <sstream>
#include <thread>

using namespace msda::test;

namespace {

std::string explain(TestHandle const& handle, ProblemShape const& shape) {
  ProblemCopy const view = shape.copy();
  std::size_t bytes = 0;
  REQUIRE(msda_explain(handle.get(), &view.c, nullptr, &bytes) == MSDA_SUCCESS);
  std::string text(bytes, 'x');
  REQUIRE(msda_explain(handle.get(), &view.c, text.data(), &bytes) == MSDA_SUCCESS);
  REQUIRE(bytes == text.size());
  REQUIRE(text.back() == '\0');
  text.pop_back();
  CHECK(text.find('\0') == std::string::npos);
  return text;
}

struct LogLine {
  msda_log_level level;
  std::string message;
};
struct LogBook {
  std::vector<LogLine> lines;
  std::vector<std::string> complaints;
};

void write_log(void* user, msda_log_level level, const char* message, std::size_t length) {
  auto& book = *static_cast<LogBook*>(user);
  if (std::strlen(message) != length)
    book.complaints.emplace_back("length is not that of the text");
  if (std::strchr(message, '\n') != nullptr) book.complaints.emplace_back("more than one line");
  book.lines.push_back({level, message});
}

// What a handle of that level is told while a plan is made, run once, and once wrongly.
LogBook log_of_a_session(msda_log_level level) {
  LogBook book;
  msda_handle_options options = cpu_options(1);
  options.log_fn = write_log;
  options.log_user = &book;
  options.log_level = level;
  TestHandle const handle(options);
  TestProblem const problem = corpus_case("dfine").make(corpus_case("dfine").shape);
  PlanResult const plan = make_plan(handle, problem.shape, "");
  CHECK(run_plan(plan.plan.get(), problem, 0).failure == "");
  CHECK(msda_execute(plan.plan.get(), nullptr, nullptr) == MSDA_ERROR_INVALID_ARGUMENT);
  return book;
}

}  // namespace

TEST_CASE("explain says of every kernel its rank or its reason") {
  TestHandle const handle;
  for (const char* const name : {"encoder", "decoder", "mixed_f64", "no_queries"}) {
    for (ProblemShape shape : corpus_case(name).shapes()) {
      for (msda_operation const operation : {MSDA_FORWARD, MSDA_BACKWARD}) {
        shape.operation = operation;
        std::stringstream lines(explain(handle, shape));
        std::set<std::string> explained;
        double last_us = 0;
        int last_rank = 0;
        bool rejecting = false;
        for (std::string line; std::getline(lines, line);) {
          CAPTURE(line);
          std::stringstream words(line);
          std::string rank, id, verdict, number, unit;
          words >> rank >> id >> verdict;
          explained.insert(id);
          std::string const reason = expected_reason(handle, id, shape);
          if (!reason.empty()) {
            CHECK(line == fmt::format("-  {}  rejected: {}", id, reason));
            rejecting = true;
            continue;
          }
          CHECK_FALSE(rejecting);  // those that take it come first
          double us = 0;
          words >> us >> unit;
          CHECK(rank == std::to_string(++last_rank));
          CHECK(verdict == "predicted");
          bool const is_left_out =
              caches_levels(id) && shape.point_locality != MSDA_POINTS_SCATTERED;
          bool const is_last_resort = id.starts_with("ref.") && last_rank > 1;
          CHECK(unit == (is_left_out || is_last_resort ? "us," : "us"));
          CHECK(us > 0);
          // Behind the one that is chosen the others come by predicted time; those that are left
          // out may be faster than the first.
          CHECK(line.ends_with(is_left_out ? "us, only chosen for scattered points or by tuning"
                               : is_last_resort
                                   ? "us, only chosen where no other kernel takes the problem"
                                   : " us"));
          CHECK((us >= last_us || (last_rank == 2 && (is_left_out || is_last_resort))));
          last_us = us;
        }
        std::vector<std::string> const ids = kernel_ids(handle);
        CHECK(explained == std::set<std::string>(ids.begin(), ids.end()));
        // The first one is the one that is taken.
        std::string const first = explain(handle, shape);
        std::string const chosen = plan_info(make_plan(handle, shape, "").plan.get()).kernel_id;
        CHECK(first.starts_with("1  " + chosen + "  "));
      }
    }
  }
}

TEST_CASE("texts and blobs tell their size and need it") {
  TestHandle const handle;
  ProblemCopy const view = corpus_case("encoder").shape.copy();
  PlanResult const plan = make_plan(handle, corpus_case("encoder").shape, "");
  auto const check_protocol = [](auto call) {
    std::size_t needed = 12345;
    REQUIRE(call(nullptr, &needed) == MSDA_SUCCESS);
    REQUIRE(needed > 1);
    for (std::size_t const offered : {std::size_t{0}, std::size_t{1}, needed - 1}) {
      std::string buffer(needed, 'x');
      std::size_t bytes = offered;
      CHECK(call(buffer.data(), &bytes) == MSDA_ERROR_BUFFER_TOO_SMALL);
      CHECK(bytes == needed);
      CHECK(buffer == std::string(needed, 'x'));
      CHECK(std::string(msda_last_error()).find(std::to_string(needed)) != std::string::npos);
    }
    std::string exact(needed, 'x'), roomy(needed + 100, 'x');
    std::size_t bytes = needed;
    CHECK(call(exact.data(), &bytes) == MSDA_SUCCESS);
    CHECK(bytes == needed);
    bytes = roomy.size();
    CHECK(call(roomy.data(), &bytes) == MSDA_SUCCESS);
    CHECK(bytes == needed);
    CHECK(roomy == exact + std::string(100, 'x'));
    CHECK(call(exact.data(), nullptr) == MSDA_ERROR_INVALID_ARGUMENT);
  };
  check_protocol([&](char* text, std::size_t* size) {
    return msda_explain(handle.get(), &view.c, text, size);
  });
  check_protocol([&](char* blob, std::size_t* size) {
    return msda_plan_serialize(plan.plan.get(), blob, size);
  });
}

TEST_CASE("the list of kernels is whole and its ids are unique") {
  TestHandle const handle;
  std::vector<std::string> const ids = kernel_ids(handle);
  CHECK(std::set<std::string>(ids.begin(), ids.end()).size() == ids.size());
  for (const char* const id :
       {"ref.cpu@1", "simd.cpu.f32@2", "simd.cpu.f16@2", "simd.cpu.bf16@2", "simd.cpu.f8@1"}) {
    CAPTURE(id);
    CHECK(std::count(ids.begin(), ids.end(), id) == 1);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    msda_kernel_info info{};
    info.struct_size = sizeof(info);
    REQUIRE(msda_kernel_get(handle.get(), i, &info) == MSDA_SUCCESS);
    CHECK(ids[i].starts_with(std::string(info.family) + "."));
    CHECK(ids[i].find('@') != std::string::npos);
  }
  msda_kernel_info info{};
  info.struct_size = sizeof(info);
  CHECK(msda_kernel_get(handle.get(), ids.size(), &info) == MSDA_ERROR_INVALID_ARGUMENT);
  CHECK(msda_kernel_get(handle.get(), SIZE_MAX, &info) == MSDA_ERROR_INVALID_ARGUMENT);
}

TEST_CASE("version and names") {
  CHECK(msda_version() ==
        MSDA_VERSION_MAJOR * 10000 + MSDA_VERSION_MINOR * 100 + MSDA_VERSION_PATCH);
  CHECK(msda_abi_version() == MSDA_ABI_VERSION);
  std::string const build = msda_build_info();
  CHECK(build.find(fmt::format("{}.{}.{}", MSDA_VERSION_MAJOR, MSDA_VERSION_MINOR,
                               MSDA_VERSION_PATCH)) != std::string::npos);
  CHECK(build.find("CUDA") != std::string::npos);
  CHECK(build.find('\n') == std::string::npos);
  CHECK(std::string(msda_status_name(MSDA_SUCCESS)) == "MSDA_SUCCESS");
  CHECK(std::string(msda_status_name(MSDA_ERROR_STALE_PLAN)) == "MSDA_ERROR_STALE_PLAN");
  std::set<std::string> names;
  for (msda_status status = MSDA_SUCCESS; status <= MSDA_ERROR_INTERNAL; ++status) {
    names.insert(msda_status_name(status));
  }
  CHECK(names.size() == MSDA_ERROR_INTERNAL + 1);
  for (msda_status const unknown : {-1, 9, INT32_MAX, INT32_MIN}) {
    CHECK(std::string(msda_status_name(unknown)) == "MSDA_ERROR_UNKNOWN");
  }
}

TEST_CASE("every thread has an error text of its own") {
  std::thread([] {
    CHECK(std::string(msda_last_error()) == "");
    std::size_t count = 0;
    CHECK(msda_kernel_count(nullptr, &count) == MSDA_ERROR_INVALID_ARGUMENT);
    std::string const mine = msda_last_error();
    CHECK(mine == "msda_kernel_count: handle is NULL: must not be");
    std::thread([] { CHECK(std::string(msda_last_error()) == ""); }).join();
    // A call that succeeds leaves it; the next failure replaces it.
    TestHandle const handle(1);
    CHECK(std::string(msda_last_error()) == mine);
    CHECK(msda_plan_create(handle.get(), nullptr, nullptr, nullptr) == MSDA_ERROR_INVALID_ARGUMENT);
    CHECK(std::string(msda_last_error()) != mine);
  }).join();
}

TEST_CASE("an endless text from the caller does not break the message") {
  TestHandle const handle(1);
  ProblemCopy const view = corpus_case("encoder").shape.copy();
  std::string const id(100'000, 'k');
  msda_plan_options options{};
  options.struct_size = sizeof(options);
  options.mode = MSDA_PLAN_FORCED;
  options.kernel_id = id.c_str();
  msda_plan* plan = nullptr;
  CHECK(msda_plan_create(handle.get(), &view.c, &options, &plan) == MSDA_ERROR_INVALID_ARGUMENT);
  std::string const message = msda_last_error();
  CHECK(message.size() > 100);
  CHECK(message.size() < 2000);
}

TEST_CASE("the log is told what its level says") {
  std::size_t last = 0;
  for (msda_log_level level = MSDA_LOG_OFF; level <= MSDA_LOG_TRACE; ++level) {
    LogBook const book = log_of_a_session(level);
    CAPTURE(level);
    CHECK(book.complaints.empty());
    for (LogLine const& line : book.lines) {
      CHECK(line.level > MSDA_LOG_OFF);
      CHECK(line.level <= level);
    }
    CHECK(book.lines.size() >= last);
    last = book.lines.size();
  }
  CHECK(log_of_a_session(MSDA_LOG_OFF).lines.empty());
  LogBook const errors = log_of_a_session(MSDA_LOG_ERROR);
  REQUIRE(errors.lines.size() == 1);
  CHECK(errors.lines[0].message.starts_with("msda_execute: "));
  bool names_kernel = false;
  for (LogLine const& line : log_of_a_session(MSDA_LOG_INFO).lines) {
    names_kernel |=
        line.level == MSDA_LOG_INFO && line.message.find("simd.cpu.f32@2") != std::string::npos;
  }
  CHECK(names_kernel);
  CHECK(log_of_a_session(MSDA_LOG_TRACE).lines.back().level == MSDA_LOG_ERROR);
}

TEST_CASE("a plan outlives its handle and what it was made from") {
  CountingAllocator allocator;
  msda_handle_options options = cpu_options(2);
  allocator.install(options);
  TestProblem const problem = corpus_case("dfine").make(corpus_case("dfine").shape);
  RunResult const expected = run(TestHandle(2), problem, "");
  auto handle = std::make_unique<TestHandle>(options);
  auto view = std::make_unique<ProblemCopy>(problem.shape.copy());
  msda_plan* first = nullptr;
  msda_plan* second = nullptr;
  REQUIRE(msda_plan_create(handle->get(), &view->c, nullptr, &first) == MSDA_SUCCESS);
  REQUIRE(msda_plan_create(handle->get(), &view->c, nullptr, &second) == MSDA_SUCCESS);
  view.reset();
  handle.reset();
  CHECK(allocator.live_blocks() > 0);
  CHECK(run_plan(first, problem, 0).same_bits(expected));
  msda_plan_destroy(first);
  CHECK(run_plan(second, problem, 0).same_bits(expected));
  msda_plan_destroy(second);
  CHECK(allocator.live_blocks() == 0);
  CHECK(allocator.complaint() == "");
}

TEST_CASE("destroying nothing does nothing") {
  std::string const before = msda_last_error();
  msda_handle_destroy(nullptr);
  msda_plan_destroy(nullptr);
  CHECK(msda_last_error() == before);
}
