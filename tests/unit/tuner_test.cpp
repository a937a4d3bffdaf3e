// The tuner's policy on made-up kernels and a made-up clock.

#include "plan/tuner.h"

#include <doctest/doctest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

using namespace msda;

namespace {

using Times = std::function<double(int run)>;  // microseconds of a kernel's run-th run, from 0

constexpr double kFails = -1;

// Each kernel takes what its function says, and the clock goes on by as much.
class FakeTrials final : public Trials {
 public:
  explicit FakeTrials(std::vector<Times> kernels)
      : kernels_(std::move(kernels)), run_counts(kernels_.size()) {}

  double elapsed_ms() override { return clock_us / 1e3; }

  std::optional<double> run_us(std::size_t kernel, int repeats) override {
    order.push_back(kernel);
    double total = 0;
    for (int i = 0; i < repeats; ++i) {
      double const us = kernels_[kernel](run_counts[kernel]++);
      if (us == kFails && kernel == 0) throw std::runtime_error("kernel 0 fails");
      if (us == kFails) return std::nullopt;
      total += us;
    }
    clock_us += total;
    return total / repeats;
  }

 private:
  std::vector<Times> kernels_;

 public:
  std::vector<int> run_counts;
  std::vector<std::size_t> order;  // of samples
  double clock_us = 0;
};

Times always(double us) {
  return [us](int) { return us; };
}

// Steps around the middle that repeat every five runs, by this share at most.
Times noisy(double us, double share) {
  return [=](int run) { return us * (1 + share * ((run * 3 % 5) - 2) / 2); };
}

constexpr double kPlenty = 1e6;

Choice choose(FakeTrials& trials, std::vector<double> const& predicted_us,
              double budget_ms = kPlenty) {
  return choose_by_time(predicted_us, budget_ms, trials);
}

}  // namespace

TEST_CASE("the fastest of several kernels is chosen and runs last") {
  FakeTrials trials({always(1000), always(900), always(700), always(800)});
  Choice const choice = choose(trials, {10, 11, 12, 13});
  CHECK(choice.kernel == 2);
  CHECK(choice.is_measured);
  CHECK(choice.median_us == 700);
  CHECK(choice.heuristic_us == 1000);
  CHECK(choice.tried_count == 4);
  CHECK(trials.order.front() == 0);
  CHECK(trials.order.back() == 2);
}

TEST_CASE("the heuristic's choice stays in a tie and when the gain is small") {
  for (double const other : {1000.0, 990.0, 981.0, 1200.0}) {
    CAPTURE(other);
    FakeTrials trials({always(1000), always(other)});
    Choice const choice = choose(trials, {10, 11});
    CHECK(choice.kernel == 0);
    CHECK(choice.is_measured);
    CHECK(choice.median_us == choice.heuristic_us);
    CHECK(trials.order.back() == 0);
  }
  FakeTrials trials({always(1000), always(970)});
  CHECK(choose(trials, {10, 11}).kernel == 1);
}

TEST_CASE("a gain within the noise is none") {
  FakeTrials loud({noisy(1000, 0.4), noisy(900, 0.4)});
  CHECK(choose(loud, {10, 11}).kernel == 0);
  FakeTrials quiet({noisy(1000, 0.02), noisy(900, 0.02)});
  CHECK(choose(quiet, {10, 11}).kernel == 1);
}

TEST_CASE("is_clearly_faster") {
  std::vector<double> const steady = {100, 100, 100};
  CHECK(is_clearly_faster(std::vector<double>{97, 97, 97}, steady));
  CHECK_FALSE(is_clearly_faster(std::vector<double>{98.5, 98.5, 98.5}, steady));
  CHECK_FALSE(is_clearly_faster(steady, steady));
  CHECK_FALSE(is_clearly_faster(std::vector<double>{101, 101, 101}, steady));
  // One slow run does not count, a spread does.
  CHECK(is_clearly_faster(std::vector<double>{90, 90, 900}, steady));
  CHECK_FALSE(is_clearly_faster(std::vector<double>{75, 90, 105}, steady));
  CHECK_FALSE(
      is_clearly_faster(std::vector<double>{90, 90, 90}, std::vector<double>{80, 100, 120}));
  // No work, no time: nothing is faster.
  CHECK_FALSE(is_clearly_faster(std::vector<double>{0, 0, 0}, std::vector<double>{0, 0, 0}));
}

TEST_CASE("a winner that does not win again is not believed") {
  // Fast in its first 20 runs, as in a moment of luck, and slow from then on.
  FakeTrials trials({always(1000), [](int run) { return run < 12 ? 500.0 : 1500.0; }});
  Choice const choice = choose(trials, {10, 11});
  CHECK(choice.kernel == 0);
  CHECK(trials.order.back() == 0);
}

TEST_CASE("kernels may be predicted faster than the heuristic's choice") {
  // As those that a plan leaves out may be: they are front runners, and tried by their
  // prediction.
  FakeTrials trials({always(1000), always(700), always(900), always(500)});
  Choice const choice = choose(trials, {10, 8, 12, 101});
  CHECK(choice.kernel == 1);
  CHECK(choice.tried_count == 3);  // ten times the choice's prediction is too much
  CHECK(choice.heuristic_us == 1000);
  FakeTrials slower({always(1000), always(1100), always(1200)});
  CHECK(choose(slower, {10, 1, 2}).kernel == 0);
}

TEST_CASE("every other round is run backwards") {
  FakeTrials trials({always(1000), always(1000), always(1000)});
  choose(trials, {10, 11, 12});
  auto const first_round = trials.order.begin() + 4;  // two runs and one of each to warm up
  CHECK(std::vector<std::size_t>(first_round, first_round + 9) ==
        std::vector<std::size_t>{0, 1, 2, 2, 1, 0, 0, 1, 2});
}

TEST_CASE("a drift of the clock meets all kernels alike") {
  // A machine that gets faster and faster: whoever ran last would look best.
  FakeTrials* machine = nullptr;
  auto const drifting = [&machine](double us) {
    return [&machine, us](int) { return us / (1 + machine->clock_us / 1e6); };
  };
  FakeTrials trials({drifting(1000), drifting(1010)});
  machine = &trials;
  CHECK(choose(trials, {10, 11}).kernel == 0);
}

TEST_CASE("a slow first run is not held against a kernel") {
  FakeTrials trials({always(1000), [](int run) { return run == 0 ? 90000.0 : 500.0; }});
  CHECK(choose(trials, {10, 11}).kernel == 1);
}

TEST_CASE("a hopeless kernel is run no more than twice") {
  FakeTrials trials({always(1000), always(100000), always(900)});
  Choice const choice = choose(trials, {10, 11, 12});
  CHECK(choice.kernel == 2);
  CHECK(trials.run_counts[1] == 2);
  CHECK(choice.tried_count == 3);
}

TEST_CASE("kernels that fall behind leave the rounds") {
  FakeTrials trials({always(1000), always(2000), always(1050), always(950)});
  choose(trials, {10, 11, 12, 13});
  CHECK(trials.run_counts[1] < trials.run_counts[2]);
  CHECK(trials.run_counts[0] >= trials.run_counts[3]);
}

TEST_CASE("one kernel is measured and stays") {
  FakeTrials trials({always(1000)});
  Choice const choice = choose(trials, {10});
  CHECK(choice.kernel == 0);
  CHECK(choice.is_measured);
  CHECK(choice.median_us == 1000);
  CHECK(choice.tried_count == 1);
  CHECK(trials.run_counts[0] <= 5);
}

TEST_CASE("a budget that is too small leaves the heuristic's choice, run once") {
  for (double const budget_ms : {1e-9, 0.5, 1.0}) {
    CAPTURE(budget_ms);
    FakeTrials trials({always(1000), always(100)});
    Choice const choice = choose(trials, {10, 11}, budget_ms);
    CHECK(choice.kernel == 0);
    CHECK_FALSE(choice.is_measured);
    CHECK(choice.median_us == 0);
    CHECK(trials.order == std::vector<std::size_t>{0});
  }
}

TEST_CASE("whatever the budget, it is kept, and the choice is sound") {
  bool was_found = false;
  for (double budget_ms = 2; budget_ms < 120; budget_ms += 0.7) {
    CAPTURE(budget_ms);
    FakeTrials trials({noisy(1000, 0.02), always(600), always(1500), always(700)});
    Choice const choice = choose(trials, {10, 12, 11, 40}, budget_ms);
    CHECK(trials.elapsed_ms() <= budget_ms);
    CHECK((choice.kernel == 0 || choice.kernel == 1 || choice.kernel == 3));
    if (choice.kernel != 0) CHECK(choice.is_measured);
    CHECK(trials.order.back() == choice.kernel);
    was_found |= choice.kernel == 1;
    // Once there was time to find it, more time does not lose it.
    CHECK((!was_found || choice.kernel == 1 || choice.kernel == 3));
  }
  CHECK(was_found);
  FakeTrials enough({always(1000), always(600)});
  CHECK(choose(enough, {10, 11}, 20).kernel == 1);  // what the header says of twenty calls
}

TEST_CASE("what looks faster and could not be confirmed is not remembered either way") {
  int short_of_time = 0;
  for (double budget_ms = 1; budget_ms < 60; budget_ms += 0.3) {
    CAPTURE(budget_ms);
    FakeTrials trials({always(1000), always(500)});
    Choice const choice = choose(trials, {10, 11}, budget_ms);
    CHECK((choice.kernel == 1) == choice.is_measured);
    short_of_time += trials.run_counts[1] > 3 && !choice.is_measured ? 1 : 0;
  }
  CHECK(short_of_time > 0);
}

TEST_CASE("kernels predicted beyond the budget are not tried") {
  FakeTrials trials({always(1000), always(1100), always(100)});
  Choice const choice = choose(trials, {10, 11, 99}, 20);
  CHECK(trials.run_counts[2] == 0);
  CHECK(choice.tried_count == 2);
  CHECK(choice.kernel == 0);
  CHECK(choice.is_measured);
}

TEST_CASE("kernels predicted ten times as slow are none to compare with") {
  FakeTrials trials({always(1000), always(100), always(100)});
  Choice const choice = choose(trials, {10, 100.1, 1e300});
  CHECK(choice.kernel == 0);
  CHECK(choice.tried_count == 1);
  CHECK(choice.is_measured);  // nothing was left out for want of time
  FakeTrials nearer({always(1000), always(100), always(100)});
  CHECK(choose(nearer, {10, 100, 101}).kernel == 1);
  FakeTrials free_of_charge({always(1000), always(100)});
  CHECK(choose(free_of_charge, {0, 0}).kernel == 1);
}

TEST_CASE("a kernel that fails is left out whenever it fails") {
  for (int last_good = 0; last_good < 40; ++last_good) {
    CAPTURE(last_good);
    FakeTrials trials({always(1000),
                       [last_good](int run) { return run < last_good ? 500.0 : kFails; },
                       always(800)});
    Choice const choice = choose(trials, {10, 11, 12});
    // Having failed, it is neither chosen nor run again; it may never have come to its failure.
    bool const has_failed = trials.run_counts[1] > last_good;
    CHECK(choice.kernel != (has_failed ? 1u : 3u));
    if (last_good < 10) CHECK(has_failed);
    CHECK(trials.run_counts[1] <= last_good + 1);
    CHECK(trials.order.back() == choice.kernel);
    CHECK(choice.is_measured);
  }
  for (double budget_ms = 3; budget_ms < 60; budget_ms += 0.7) {
    CAPTURE(budget_ms);
    FakeTrials brief({always(1000), [](int run) { return run < 4 ? 500.0 : kFails; }});
    CHECK(choose(brief, {10, 11}, budget_ms).kernel == 0);
    CHECK(brief.run_counts[1] <= 5);
  }
  // The only other one fails: nothing was compared but everything was tried.
  FakeTrials trials({always(1000), always(kFails)});
  Choice const choice = choose(trials, {10, 11});
  CHECK(choice.kernel == 0);
  CHECK(choice.is_measured);
}

TEST_CASE("the failure of the heuristic's choice is the caller's to know") {
  FakeTrials at_once({always(kFails), always(100)});
  CHECK_THROWS_WITH(choose(at_once, {10, 11}), "kernel 0 fails");
  FakeTrials later({[](int run) { return run < 5 ? 100.0 : kFails; }, always(100)});
  CHECK_THROWS_WITH(choose(later, {10, 11}), "kernel 0 fails");
}

TEST_CASE("short kernels are timed back to back, long ones alone") {
  FakeTrials brief({always(10), always(5)});
  CHECK(choose(brief, {1, 1}).kernel == 1);
  CHECK(brief.run_counts[0] > 100);
  FakeTrials instant({always(0), always(0)});
  CHECK(choose(instant, {0, 0}).kernel == 0);
  FakeTrials lengthy({always(50000), always(25000)});
  CHECK(choose(lengthy, {1, 1}).kernel == 1);
  CHECK(lengthy.run_counts[0] < 40);
}
