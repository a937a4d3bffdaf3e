// Which thread goes on: in order, at random, or by random priorities of warps.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace simt {

struct Thread;

enum class Order : std::uint8_t { in_order, random, warps };

// MSDA_SIMT_SCHEDULE: "order" (the default), "random:SEED" or "warps:SEED".
struct Schedule {
  Order order = Order::in_order;
  std::uint64_t seed = 0;
};
Schedule schedule_of(std::string const& text);  // aborts with a message for anything else
Schedule const& chosen_schedule();
// That of the kernels from here on: the chosen one, unless a test has set another.
Schedule current_schedule();

// Sets the schedule for a while, in which no kernel of another thread runs.
class ScopedSchedule {
 public:
  explicit ScopedSchedule(Schedule const& with);
  ~ScopedSchedule();
  ScopedSchedule(ScopedSchedule const&) = delete;
  ScopedSchedule& operator=(ScopedSchedule const&) = delete;

 private:
  Schedule before_;
};

std::string text_of(Schedule const& schedule);
// A command line that runs this process again with this schedule.
std::string repeat_command();

// splitmix64: S. Vigna, public domain.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  bool one_in(std::uint64_t n) { return next() % n == 0; }

 private:
  std::uint64_t state_;
};

// The threads that can go on.
class Scheduler {
 public:
  explicit Scheduler(Schedule const& schedule) : schedule_(schedule), random_(schedule.seed) {}

  void add(Thread& thread);
  // The next one. Null where none is ready, and now and then at random, for the host to do
  // something else: finish a copy, begin a block.
  Thread* take();
  // The next one of some that are ready.
  Thread* take_any();
  std::size_t ready_count() const { return in_order_.size() + heap_.size(); }

  bool is_random() const { return schedule_.order != Order::in_order; }
  Random& random() { return random_; }

  // Pauses of threads since anything else happened: when all that is ready polls, the host must
  // do something.
  void count_pause() { ++pauses_; }
  void note_progress() { pauses_ = 0; }
  bool only_polls() const { return pauses_ > 2 * ready_count() + 16; }
  // Nothing that is left to do ends the polling.
  bool polls_forever() const { return pauses_ > 1000 * (ready_count() + 16); }

 private:
  struct Entry {
    std::uint64_t priority;
    std::uint64_t number;  // among equals the earlier one
    Thread* thread;
  };
  static bool is_after(Entry const& a, Entry const& b);

  Schedule schedule_;
  Random random_;
  std::deque<Thread*> in_order_;
  std::vector<Entry> heap_;
  std::uint64_t number_ = 0;
  std::uint64_t pauses_ = 0;
};

}  // namespace simt
