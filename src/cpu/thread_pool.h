// Threads of the CPU backend. They sleep when there is nothing to do, and who computes a chunk
// never changes what is computed: chunks write disjoint outputs.
#pragma once

#include <cstdint>
#include <memory>

namespace msda {

// A reference to a callable void(int64_t chunk); lives no longer than the callable.
class ChunkFn {
 public:
  template <typename F>
  ChunkFn(F& f)  // NOLINT: implicit on purpose
      : object_(&f), call_([](void* o, std::int64_t i) { (*static_cast<F*>(o))(i); }) {}
  void operator()(std::int64_t chunk) const { call_(object_, chunk); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t);
};

class ThreadPool {
 public:
  // thread_count >= 1 counts the calling thread: thread_count - 1 are started.
  explicit ThreadPool(std::int32_t thread_count);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::int32_t thread_count() const;

  // Runs fn(0) .. fn(chunk_count - 1), each once, on the calling thread and the pool's; returns
  // when all are done. Any number of threads may call it at once. Allocates nothing. fn must not
  // throw.
  void run(std::int64_t chunk_count, ChunkFn fn);

  // False in a child process after fork(), where the pool's threads are not; a pool of the calling
  // thread alone is usable anywhere.
  bool usable_in_this_process() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace msda
