// Which of several kernels is the fastest, by running them: what is run, how often, and when one is
// believed to be faster than the heuristic's choice. Knows neither kernels nor clocks, so that the
// tests can stand in for both.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace msda {

// A run of kernels on something. They go by their place in the heuristic's order; 0 is its choice.
class Trials {
 public:
  virtual ~Trials() = default;
  // Milliseconds spent since the beginning.
  virtual double elapsed_ms() = 0;
  // Runs a kernel `repeats` times back to back and returns the microseconds of one; none if the
  // kernel failed. What kernel 0 fails with is thrown: without it there is nothing to choose.
  virtual std::optional<double> run_us(std::size_t kernel, int repeats) = 0;
};

struct Choice {
  std::size_t kernel = 0;
  // Microseconds of one run of the chosen kernel and of kernel 0.
  double median_us = 0;
  double heuristic_us = 0;
  std::size_t tried_count = 0;  // kernels that were run at least once
  // The budget was enough to compare: the choice is worth remembering.
  bool is_measured = false;
};

// predicted_us of the heuristic's choice, then of the others in ascending order, which may begin
// below it: kernels that a plan without the hint leaves out. Chooses kernel 0 unless another was
// measured faster, twice, by more than its runs vary. The last run is one of the chosen kernel, so
// that the results it left are that kernel's. Runs kernel 0 at least once and starts nothing that
// it does not expect to end within the budget.
Choice choose_by_time(std::span<const double> predicted_us, double budget_ms, Trials& trials);

// Whether the challenger's runs are faster than the others by more than noise.
bool is_clearly_faster(std::span<const double> challenger_us, std::span<const double> other_us);

}  // namespace msda
