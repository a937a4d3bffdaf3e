// Turns a kernel that never ends into a failed test program.
#pragma once

#include <unistd.h>
#include <csignal>

namespace msda::test {

// While it lives: after `seconds` the program ends with exit status 1 and says why. What a GPU has
// hung on cannot be taken back, so that no later test could run.
class Watchdog {
 public:
  explicit Watchdog(unsigned seconds) {
    std::signal(SIGALRM, [](int) {
      constexpr char kText[] = "watchdog: a kernel of the tests has not ended in time\n";
      static_cast<void>(!write(STDERR_FILENO, kText, sizeof(kText) - 1));
      _exit(1);
    });
    alarm(seconds);
  }
  ~Watchdog() {
    alarm(0);
    std::signal(SIGALRM, SIG_DFL);
  }
  Watchdog(Watchdog const&) = delete;
  Watchdog& operator=(Watchdog const&) = delete;
};

}  // namespace msda::test
