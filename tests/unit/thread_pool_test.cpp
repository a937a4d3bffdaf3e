// Every chunk once, whoever does it.

#include "cpu/thread_pool.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

using namespace msda;

namespace {

// How often each chunk ran.
std::vector<int> run_counts(ThreadPool& pool, std::int64_t chunk_count) {
  std::vector<std::atomic<int>> runs(static_cast<std::size_t>(chunk_count));
  auto count = [&](std::int64_t chunk) { ++runs[static_cast<std::size_t>(chunk)]; };
  pool.run(chunk_count, count);
  return {runs.begin(), runs.end()};
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto const seconds = [](timeval const& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

TEST_CASE("each chunk runs once") {
  for (std::int32_t const threads : {1, 2, 3, 16}) {
    ThreadPool pool(threads);
    CHECK(pool.thread_count() == threads);
    CHECK(pool.usable_in_this_process());
    for (std::int64_t const chunks : {0, 1, 2, 3, 15, 16, 17, 1000}) {
      for (int repeat = 0; repeat < 20; ++repeat) {
        REQUIRE(run_counts(pool, chunks) == std::vector<int>(static_cast<std::size_t>(chunks), 1));
      }
    }
  }
}

TEST_CASE("run returns when all is done and not before") {
  ThreadPool pool(4);
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::atomic<int> done{0};
    auto slow = [&](std::int64_t chunk) {
      std::this_thread::sleep_for(std::chrono::microseconds(chunk % 3 * 200));
      ++done;
    };
    pool.run(9, slow);
    REQUIRE(done == 9);
  }
}

TEST_CASE("several callers at once") {
  ThreadPool pool(3);
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&] {
      for (std::int64_t chunks = 0; chunks < 100; ++chunks) {
        if (run_counts(pool, chunks) != std::vector<int>(static_cast<std::size_t>(chunks), 1))
          ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("helpers take part") {
  ThreadPool pool(2);
  // The caller's chunk waits for the other one: it would never end alone.
  std::atomic<int> entered{0};
  auto meet = [&](std::int64_t) {
    ++entered;
    while (entered < 2) std::this_thread::yield();
  };
  pool.run(2, meet);
  CHECK(entered == 2);
}

TEST_CASE("an idle pool uses no time") {
  ThreadPool pool(16);
  run_counts(pool, 100);
  // Threads may start late and look around for work first. A pool that never sleeps uses all that
  // the machine gives it and has no quiet interval; a busy machine only gives it later.
  constexpr double kPatienceSeconds = 10;  // of a core
  double const begin = cpu_seconds();
  double before = 0, after = begin;
  do {
    before = after;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    after = cpu_seconds();
  } while (after - before >= 0.05 && after - begin < kPatienceSeconds);
  CHECK(after - before < 0.05);
}

TEST_CASE("pools come and go") {
  for (int i = 0; i < 200; ++i) {
    ThreadPool pool(4);
    CHECK(pool.thread_count() == 4);
    if (i % 2 == 0) CHECK(run_counts(pool, 5) == std::vector<int>(5, 1));
  }
}
