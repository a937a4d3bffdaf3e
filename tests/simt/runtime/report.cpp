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

std::string text_of(uint3 index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " +
         std::to_string(index.z) + ")";
}

std::string format_text(const char* format, std::va_list arguments) {
  char text[1024];
  std::vsnprintf(text, sizeof(text), format, arguments);
  return text;
}

std::string kernel_of(Thread const& thread) {
  return kernel_name(thread.own_block->cluster->grid->launch.kernel->entry);
}

// Threads that wait in the same place for the same.
struct WaitingPlace {
  Thread const* first;
  std::size_t count;
  std::size_t blocks;
};

bool is_same_wait(Thread const& a, Thread const& b) {
  return a.waits_on == b.waits_on && a.state == b.state &&
         std::string_view(a.waits_for) == b.waits_for && a.where.line() == b.where.line() &&
         std::string_view(a.where.file_name()) == b.where.file_name();
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
          places.push_back({&thread, 1, 1});
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
  return "block " + text_of(thread.block) + " thread " + text_of(thread.thread);
}

void return_failures(bool on) { returns_failures = on; }

Failure report_failure(std::string report) {
  report = "simulated device: " + report + "\n  to repeat it: " + repeat_command() + "\n";
  std::fputs(report.c_str(), stderr);
  std::fflush(stderr);
  if (!returns_failures) std::abort();
  return {std::move(report), nullptr};
}

void fail(Where where, const char* format, ...) {
  begin_own_work();
  std::va_list arguments;
  va_start(arguments, format);
  std::string report = format_text(format, arguments);
  va_end(arguments);
  report += "\n  at " + text_of(where) + ", " + where.function_name();
  if (run == nullptr || self == nullptr) {
    report_failure(report + "\n  outside a kernel");
    std::abort();
  }
  Thread& thread = running_thread();
  report += "\n  in " + name_of(thread) + " of " + kernel_of(thread);
  run->failure = report_failure(report);
  run->failure->kernel = thread.own_block->cluster->grid->launch.kernel;
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

}  // namespace simt

// What a sanitizer reports is a thread's of a kernel.
extern "C" {
void __asan_on_error() {
  if (simt::run == nullptr || simt::self == nullptr) return;
  simt::Thread const& thread = simt::running_thread();
  std::fprintf(stderr, "simulated device: in %s of %s\n  to repeat it: %s\n",
               simt::name_of(thread).c_str(), simt::kernel_of(thread).c_str(),
               simt::repeat_command().c_str());
}
}
