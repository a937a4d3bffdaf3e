#include "command/report/progress_bar.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace msda::command {
namespace {

constexpr std::size_t kWidth = 24;
constexpr const char* kClearLine = "\r\x1b[2K";

}  // namespace

ProgressBar::ProgressBar(std::size_t step_count)
    : step_count_(std::max<std::size_t>(step_count, 1)), is_terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (!is_terminal_) return;
  fmt::print(stderr, "{}", kClearLine);
  std::fflush(stderr);
}

void ProgressBar::step(std::string_view what) {
  std::size_t const done = std::min(steps_begun_++, step_count_);
  if (!is_terminal_) return;
  std::size_t const filled = kWidth * done / step_count_;
  fmt::print(stderr, "{}[{:#<{}}{:.<{}}] {:3}%  {}", kClearLine, "", filled, "", kWidth - filled,
             100 * done / step_count_, what);
  std::fflush(stderr);
}

}  // namespace msda::command
