// How far a long command is: one line on stderr that redraws itself, and only on a terminal.
#pragma once

#include <cstddef>
#include <string_view>

namespace msda::command {

class ProgressBar {
 public:
  explicit ProgressBar(std::size_t step_count);
  ~ProgressBar();  // clears the line
  ProgressBar(ProgressBar const&) = delete;
  ProgressBar& operator=(ProgressBar const&) = delete;

  // Begins the next step.
  void step(std::string_view what);

 private:
  std::size_t step_count_;
  std::size_t steps_begun_ = 0;
  bool is_terminal_;
};

}  // namespace msda::command
