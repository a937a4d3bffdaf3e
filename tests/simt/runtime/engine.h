// The copy engine: what it is given it does as late as it may, or at random times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace simt {

struct Thread;
class Random;

// Stores of one thread, which it waits for by groups.
struct BulkGroups {
  struct Counts {
    std::uint64_t unread = 0;
    std::uint64_t unwritten = 0;
  };
  std::deque<Counts> groups;  // committed and not all written, then the one that is open
  std::uint64_t first = 0;    // number of groups.front()
  std::vector<Thread*> waiters;
  char sync = 0;

  Counts& open();
  std::uint64_t open_number() const { return first + groups.size() - 1; }
  void note_read(std::uint64_t number);
  void note_written(std::uint64_t number);
  // Whether all but so many of the committed groups are.
  bool is_done(std::uint64_t groups_left, bool read_only) const;
};

// Copying is reading, then writing; the first may be over before the second begins.
struct Operation {
  std::function<void()> read;  // seen as the engine's by sanitizers
  std::function<void()> write;
  std::function<void()> after_read;  // the runtime's own work
  std::function<void()> after_write;
  bool was_read = false;
};

class Engine {
 public:
  void give(Operation operation) { operations_.push_back(std::move(operation)); }
  bool is_idle() const { return operations_.empty(); }
  // Does the next half of one operation, the oldest or any; false where there is none. On the
  // host's fiber.
  bool step(Random* random);

 private:
  std::deque<Operation> operations_;
};

}  // namespace simt
