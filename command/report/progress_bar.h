// How far a long command is: one line on stderr that redraws itself, and only on a terminal.
#pragma once

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string_view>

namespace msda::command {

class ProgressBar {
 public:
  explicit ProgressBar(std::size_t step_count)
      : step_count_(std::max<std::size_t>(step_count, 1)) {}
  ~ProgressBar() {
    if (is_terminal_) print(kClearLine);
  }
  ProgressBar(ProgressBar const&) = delete;
  ProgressBar& operator=(ProgressBar const&) = delete;

  // Begins the next step.
  void step(std::string_view what) {
    std::size_t const done = std::min(steps_begun_++, step_count_);
    if (!is_terminal_) return;
    std::size_t const filled = kWidth * done / step_count_;
    print(fmt::format("{}[{:#<{}}{:.<{}}] {:3}%  {}", kClearLine, "", filled, "", kWidth - filled,
                      100 * done / step_count_, what));
  }

 private:
  static constexpr std::size_t kWidth = 24;
  static constexpr std::string_view kClearLine = "\r\x1b[2K";

  static void print(std::string_view text) {
    fmt::print(stderr, "{}", text);
    std::fflush(stderr);
  }

  std::size_t step_count_;
  std::size_t steps_begun_ = 0;
  bool is_terminal_ = isatty(STDERR_FILENO) == 1;
};

}  // namespace msda::command
