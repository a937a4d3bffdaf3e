// One bug a sanitizer, made on purpose: the tests pass only if the sanitizer catches it, so that a
// build in which it silently does nothing is noticed. argv[1] names the bug.
#include <cstdio>
#include <limits>
#include <string_view>
#include <thread>
#include <vector>

namespace {

int volatile sink = 0;

void read_past_the_end() {
  std::vector<int> const four(4);
  int const* volatile data = four.data();
  sink = data[4];
}

void overflow_an_int() {
  int volatile big = std::numeric_limits<int>::max();
  sink = big + 1;
}

void race() {
  int shared = 0;
  auto const count = [&shared] {
    for (int i = 0; i < 100000; ++i) ++shared;
  };
  std::thread other(count);
  count();
  other.join();
  sink = shared;
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view const bug = argc == 2 ? argv[1] : "";
  if (bug == "address") {
    read_past_the_end();
  } else if (bug == "undefined") {
    overflow_an_int();
  } else if (bug == "thread") {
    race();
  } else {
    std::fprintf(stderr, "usage: %s address|undefined|thread\n", argv[0]);
    return 2;
  }
  std::puts("nothing was caught");
  return 0;
}
