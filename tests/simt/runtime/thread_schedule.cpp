#include "runtime/thread_schedule.h"

#include "runtime/model.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace simt {
namespace {

constexpr const char* kVariable = "MSDA_SIMT_SCHEDULE";
// One in so many choices is left to the host; one in so many wakes a warp with another priority.
constexpr std::uint64_t kHostTurns = 64;
constexpr std::uint64_t kPriorityChanges = 512;

Schedule& current() {
  static Schedule schedule = chosen_schedule();
  return schedule;
}

}  // namespace

Schedule schedule_of(std::string const& text) {
  if (text.empty() || text == "order") return {};
  auto const colon = text.find(':');
  std::string const order = text.substr(0, colon);
  if (colon != std::string::npos && (order == "random" || order == "warps")) {
    char* end = nullptr;
    std::uint64_t const seed = std::strtoull(text.c_str() + colon + 1, &end, 10);
    if (end != text.c_str() + colon + 1 && *end == 0) {
      return {order == "random" ? Order::random : Order::warps, seed};
    }
  }
  std::fprintf(stderr, "%s is '%s'; allowed are order, random:SEED and warps:SEED\n", kVariable,
               text.c_str());
  std::abort();
}

Schedule const& chosen_schedule() {
  static Schedule const schedule = [] {
    const char* const text = std::getenv(kVariable);
    return schedule_of(text == nullptr ? "" : text);
  }();
  return schedule;
}

Schedule current_schedule() { return current(); }

ScopedSchedule::ScopedSchedule(Schedule const& with) : before_(current()) { current() = with; }
ScopedSchedule::~ScopedSchedule() { current() = before_; }

std::string text_of(Schedule const& schedule) {
  if (schedule.order == Order::in_order) return "order";
  return (schedule.order == Order::random ? "random:" : "warps:") + std::to_string(schedule.seed);
}

std::string repeat_command() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string const arguments((std::istreambuf_iterator<char>(file)), {});
  std::string text = std::string(kVariable) + "=" + text_of(chosen_schedule());
  for (std::size_t at = 0; at < arguments.size();) {
    std::string const argument = arguments.c_str() + at;
    at += argument.size() + 1;
    bool const is_plain = argument.find_first_of(" *?'\"$&|;<>()\\") == std::string::npos;
    text += is_plain ? " " + argument : " '" + argument + "'";
  }
  return text;
}

std::uint64_t Random::next() {
  state_ += 0x9E3779B97F4A7C15u;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

bool Scheduler::is_after(Entry const& a, Entry const& b) {
  return a.priority != b.priority ? a.priority < b.priority : a.number > b.number;
}

void Scheduler::add(Thread& thread) {
  if (schedule_.order == Order::in_order) {
    in_order_.push_back(&thread);
    return;
  }
  if (schedule_.order == Order::warps) {
    if (random_.one_in(kPriorityChanges)) thread.warp->priority = random_.next();
    heap_.push_back({thread.warp->priority, number_++, &thread});
    std::ranges::push_heap(heap_, is_after);
    return;
  }
  heap_.push_back({0, 0, &thread});  // taken from anywhere
}

Thread* Scheduler::take_any() {
  if (schedule_.order == Order::in_order) {
    Thread* const thread = in_order_.front();
    in_order_.pop_front();
    return thread;
  }
  if (schedule_.order == Order::warps) {
    std::ranges::pop_heap(heap_, is_after);
  } else {
    std::swap(heap_[random_.next() % heap_.size()], heap_.back());
  }
  Thread* const thread = heap_.back().thread;
  heap_.pop_back();
  return thread;
}

Thread* Scheduler::take() {
  if (ready_count() == 0 || only_polls()) return nullptr;
  if (is_random() && random_.one_in(kHostTurns)) return nullptr;
  return take_any();
}

}  // namespace simt
