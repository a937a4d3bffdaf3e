#include "cpu/thread_pool.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace msda {
namespace {

// Waking a sleeping thread takes about as long as a small problem. So a thread that runs out of
// work looks around this long before it goes to sleep: calls that follow one another find it awake,
// an idle pool sleeps.
constexpr auto kLookAround = std::chrono::microseconds(100);

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <typename Condition>
void look_around_until(Condition condition) {
  auto const end = std::chrono::steady_clock::now() + kLookAround;
  do {
    for (int i = 0; i < 16; ++i) {
      if (condition()) return;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
}

// How many forks lie between this process and the one that made its first pool. Each call asks, and
// getpid() would be a call of the kernel.
std::atomic<std::int64_t> fork_count{0};

void count_forks() {
  static int const error =
      pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
  if (error != 0) throw std::bad_alloc();
}

// One run() in progress. It lives on the stack of the thread that called run().
struct Job {
  ChunkFn fn;
  std::int64_t chunk_count;
  std::atomic<std::int64_t> next_chunk{0};
  std::atomic<std::int32_t> helpers{0};  // workers inside the job; changed under the pool's mutex
  Job* next = nullptr;                   // in the list of jobs that still have chunks to give

  void work() {
    for (;;) {
      std::int64_t const chunk = next_chunk.fetch_add(1, std::memory_order_relaxed);
      if (chunk >= chunk_count) return;
      fn(chunk);
    }
  }
};

}  // namespace

struct ThreadPool::State {
  std::mutex mutex;
  std::condition_variable work_arrived;
  std::condition_variable helper_left;
  std::atomic<Job*> jobs{nullptr};  // changed under the mutex, and so is their `next`
  std::atomic<bool> ending{false};
  std::int64_t const forks_before = fork_count.load(std::memory_order_relaxed);
  std::vector<std::thread> threads;

  void remove(Job* job) {
    if (jobs == job) {
      jobs = job->next;
      return;
    }
    for (Job* other = jobs; other != nullptr; other = other->next) {
      if (other->next != job) continue;
      other->next = job->next;
      return;
    }
  }

  void worker() {
    auto const is_wanted = [this] { return ending || jobs != nullptr; };
    std::unique_lock lock(mutex);
    for (;;) {
      if (!is_wanted()) {
        lock.unlock();
        look_around_until(is_wanted);
        lock.lock();
        work_arrived.wait(lock, is_wanted);
      }
      if (ending) return;
      Job* const job = jobs;
      ++job->helpers;
      lock.unlock();
      job->work();
      lock.lock();
      // No chunk is left to give, so nobody else need look at it.
      remove(job);
      if (--job->helpers == 0) helper_left.notify_all();
    }
  }

  void end() {
    {
      std::scoped_lock const lock(mutex);
      ending = true;
    }
    work_arrived.notify_all();
    for (std::thread& thread : threads) thread.join();
  }
};

ThreadPool::ThreadPool(std::int32_t thread_count) : state_(std::make_unique<State>()) {
  State* const state = state_.get();
  count_forks();
  try {
    state->threads.reserve(static_cast<std::size_t>(thread_count));
    for (std::int32_t i = 1; i < thread_count; ++i) {
      state->threads.emplace_back([state] { state->worker(); });
    }
  } catch (...) {
    state->end();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  if (usable_in_this_process()) {
    state_->end();
  } else {
    // After fork() the threads are not there to be joined, and their objects must not be destroyed.
    static_cast<void>(state_.release());
  }
}

std::int32_t ThreadPool::thread_count() const {
  return static_cast<std::int32_t>(state_->threads.size()) + 1;
}

void ThreadPool::run(std::int64_t chunk_count, ChunkFn fn) {
  State& state = *state_;
  Job job{fn, chunk_count};
  bool const shared = chunk_count > 1 && !state.threads.empty();
  if (shared) {
    {
      std::scoped_lock const lock(state.mutex);
      job.next = state.jobs;
      state.jobs = &job;
    }
    if (chunk_count == 2) {
      state.work_arrived.notify_one();
    } else {
      state.work_arrived.notify_all();
    }
  }
  job.work();
  if (!shared) return;
  {
    std::scoped_lock const lock(state.mutex);
    state.remove(&job);
  }
  auto const is_done = [&job] { return job.helpers == 0; };
  look_around_until(is_done);
  // Also when it is done: the last helper may still hold the mutex.
  std::unique_lock lock(state.mutex);
  state.helper_left.wait(lock, is_done);
}

bool ThreadPool::usable_in_this_process() const {
  return state_->threads.empty() ||
         state_->forks_before == fork_count.load(std::memory_order_relaxed);
}

}  // namespace msda
