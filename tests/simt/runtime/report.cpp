#include "runtime/report.h"

#include "runtime/model.h"

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <tuple>

namespace simt {
namespace {

std::atomic<bool> returns_failures{false};

std::string index_text(uint3 index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
         std::to_string(index.z) + ")";
}

std::string kernel_of(Thread const& thread) {
  return kernel_name(thread.own_block->cluster->grid->launch.kernel->entry);
}

// Threads that wait in the same place for the same.
struct WaitingPlace {
  Thread const* first;
  std::size_t count;
};

bool is_same_wait(Thread const& a, Thread const& b) {
  return a.waits_on == b.waits_on && a.state == b.state &&
         std::string_view(a.waits_for) == b.waits_for && is_same_place(a.where, b.where);
}

std::vector<WaitingPlace> waiting_places() {
  std::vector<WaitingPlace> places;
  for (auto const& cluster : run->clusters) {
    for (auto const& block : cluster->blocks) {
      for (Thread const& thread : block->threads) {
        if (thread.state == State::ended) continue;
        auto const place = std::ranges::find_if(
            places, [&](WaitingPlace const& other) { return is_same_wait(*other.first, thread); });
        if (place == places.end()) {
          places.push_back({&thread, 1});
        } else {
          ++place->count;
        }
      }
    }
  }
  return places;
}

}  // namespace

std::string text_of(Where where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

std::string name_of(Thread const& thread) {
  return "block " + index_text(thread.block) + " thread " + index_text(thread.thread);
}

void return_failures(bool on) { returns_failures = on; }

Failure report_failure(std::string report) {
  report = "simulated device: " + report + "\n  to repeat it: " + repeat_command() + "\n";
  std::fputs(report.c_str(), stderr);
  std::fflush(stderr);
  if (!returns_failures) std::abort();
  return {std::move(report), nullptr};
}

namespace {

// Apart from fail(), whose frame is left and never returns.
void record_failure(Where where, const char* format, std::va_list arguments) {
  char text[1024];
  std::vsnprintf(text, sizeof(text), format, arguments);
  std::string report =
      std::string(text) + "\n  at " + text_of(where) + ", " + where.function_name();
  if (run == nullptr || self == nullptr) {
    report_failure(report + "\n  outside a kernel");
    std::abort();
  }
  Thread& thread = running_thread();
  report += "\n  in " + name_of(thread) + " of " + kernel_of(thread);
  run->failure = report_failure(report);
  run->failure->kernel = thread.own_block->cluster->grid->launch.kernel;
}

}  // namespace

void fail(Where where, const char* format, ...) {
  begin_own_work();
  std::va_list arguments;
  va_start(arguments, format);
  record_failure(where, format, arguments);
  va_end(arguments);
  Thread& thread = running_thread();
  self = nullptr;
  switch_fiber(thread.fiber, run->host);
  std::abort();
}

Failure report_deadlock() {
  std::string report = "threads wait for what nobody does (deadlock)";
  for (WaitingPlace const& place : waiting_places()) {
    Thread const& thread = *place.first;
    report += "\n  " + std::to_string(place.count) + " threads, the first is " + name_of(thread);
    if (thread.state == State::ready) {
      report += ", poll";
    } else {
      report += ", wait at " + text_of(thread.where) + " in " + thread.waits_for;
      char number[16];
      std::snprintf(number, sizeof(number), " %#x", thread.waits_on);
      report += number;
    }
  }
  for (auto const& grid : run->grids) {
    report += "\n  kernel " + kernel_name(grid->launch.kernel->entry);
  }
  return report_failure(report);
}

Thread& running_thread(Where where) {
  if (self == nullptr) fail(where, "a function of kernels is called by the host");
  return *static_cast<Thread*>(self);
}

namespace {

// What a sanitizer reports is a thread's of a kernel.
void name_running_thread() {
  if (run == nullptr || self == nullptr) return;
  Thread const& thread = running_thread();
  std::fprintf(stderr, "simulated device: in %s of %s\n  to repeat it: %s\n",
               name_of(thread).c_str(), kernel_of(thread).c_str(), repeat_command().c_str());
}

}  // namespace

void name_thread_in_sanitizer_reports() {
#if MSDA_SIMT_ASAN || MSDA_SIMT_TSAN
  static bool const is_set = [] {
    __sanitizer_set_death_callback(name_running_thread);
    return true;
  }();
  static_cast<void>(is_set);
#endif
}

}  // namespace simt
