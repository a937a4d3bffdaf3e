// Stacks and the switch between them, which the sanitizers are told of.
#pragma once

#include <cstddef>
#include <string>

namespace simt {

inline constexpr std::size_t kStackBytes = 256 << 10;

// One stack; the thread of the host that runs kernels is one, too.
struct Fiber {
  void* context = nullptr;
  char* stack = nullptr;  // lowest address
  std::size_t stack_bytes = 0;
  void (*run)() = nullptr;     // called when it is switched to first
  void* fake_stack = nullptr;  // of the address sanitizer
  void* shadow = nullptr;      // of the thread sanitizer
  bool has_ended = false;      // the next switch away is the last
};

// Has `fiber` call `run` on a stack of kStackBytes when it is switched to first. `run` does not
// return. Called on the host's fiber, in OwnWork.
void create_fiber(Fiber& fiber, char* stack, void (*run)(), std::string const& name);
void destroy_fiber(Fiber& fiber);
// Its stack is as good as new, though it was left in the middle of a call.
void abandon_fiber(Fiber& fiber);
// A name for what the thread sanitizer sees, without a stack: what is done in SeenAs.
void create_shadow(Fiber& fiber, const char* name);
// Makes the calling thread of the host a fiber.
void become_fiber(Fiber& fiber);
// From the running one.
void switch_fiber(Fiber& from, Fiber& to);

// What `work` does is seen as done by `fiber`, which is not the running one.
class SeenAs {
 public:
  SeenAs(Fiber& running, Fiber& seen);
  ~SeenAs();
  SeenAs(SeenAs const&) = delete;
  SeenAs& operator=(SeenAs const&) = delete;

 private:
  Fiber& running_;
};

// Memory for the stacks of a cluster. Released memory has no history for the thread sanitizer.
class Stacks {
 public:
  Stacks() = default;
  ~Stacks() { release(); }
  Stacks(Stacks const&) = delete;
  Stacks& operator=(Stacks const&) = delete;

  void reserve(std::size_t count);
  void swap(Stacks& other);
  char* stack(std::size_t i) const { return memory_ + i * kStackBytes; }
  void release();

 private:
  char* memory_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace simt
