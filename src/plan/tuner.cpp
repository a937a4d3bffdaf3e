#include "plan/tuner.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace msda {
namespace {

// Shares of the budget: until then other kernels are let in, and until then all are compared. What
// is left is for running the winner against the heuristic's choice once more.
constexpr double kAdmissionShare = 0.4;
constexpr double kComparisonShare = 0.75;

// Times the predicted time of the heuristic's choice: predictions are not wrong by as much.
constexpr double kFrontRunner = 10;

constexpr int kFewestRuns = 3;         // that a median is taken of
constexpr int kMaxRounds = 15;         // each runs every contender once
constexpr int kConfirmRounds = 7;      // of the winner and the heuristic's choice alone
constexpr double kHopeless = 3;        // times the best one's: not worth a second look
constexpr double kFallsBehind = 1.15;  // times the best median: out of the following rounds

// A gain below this is not worth another kernel, however steady the runs are.
constexpr double kMinGain = 0.02;

// Short kernels are run back to back, so that neither a clock's step nor a launch is what is timed.
constexpr double kSampleUs = 200;
constexpr double kMaxRepeats = 20;

double median(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  std::size_t const count = sorted.size();
  return 0.5 * (sorted[(count - 1) / 2] + sorted[count / 2]);
}

// The median distance from the median.
double deviation(std::span<const double> values) {
  double const middle = median(values);
  std::vector<double> distances(values.begin(), values.end());
  for (double& distance : distances) distance = std::abs(distance - middle);
  return median(distances);
}

struct Contender {
  std::size_t kernel = 0;
  double typical_us = 0;  // of its runs to warm up
  std::vector<double> runs_us = {};
  bool has_failed = false;

  bool has_median() const { return !has_failed && runs_us.size() >= kFewestRuns; }
  int repeats() const {
    return typical_us > 0 ? static_cast<int>(std::clamp(kSampleUs / typical_us, 1.0, kMaxRepeats))
                          : static_cast<int>(kMaxRepeats);
  }
};

std::span<const double> front_runners(std::span<const double> predicted_us) {
  auto const last = std::upper_bound(predicted_us.begin() + 1, predicted_us.end(),
                                     kFrontRunner * predicted_us.front());
  return {predicted_us.begin(), last};
}

class Contest {
 public:
  Contest(std::span<const double> predicted_us, double budget_ms, Trials& trials)
      : predicted_us_(front_runners(predicted_us)), budget_ms_(budget_ms), trials_(trials) {}

  Choice run() {
    warm_up_first();
    admit_others();
    compare();
    Choice choice;
    choice.tried_count = tried_count_;
    choice.is_measured = is_compared();
    Contender const& best = fastest();
    if (best.kernel != 0 && is_clearly_faster(best.runs_us, contenders_[0].runs_us)) {
      confirm(best, choice);
    }
    leave_results_of(choice);
    if (choice.is_measured) {
      choice.heuristic_us = median(contenders_[0].runs_us);
      choice.median_us = choice.kernel == 0 ? choice.heuristic_us : median(best.runs_us);
    }
    return choice;
  }

 private:
  // Whether so many microseconds of runs still end before that share of the budget is spent, and
  // leave time for the last run.
  bool fits(double us, double share) const {
    double const last_ms = contenders_.empty() ? 0 : 1e-3 * contenders_[0].typical_us;
    return trials_.elapsed_ms() + 1e-3 * us <= share * budget_ms_ - last_ms;
  }

  // Whether there was time for another kernel, where there is one, and enough runs of all let in.
  bool is_compared() const {
    bool const has_others = predicted_us_.size() > 1;
    return (!has_others || tried_count_ > 1) &&
           std::all_of(contenders_.begin(), contenders_.end(), [](Contender const& contender) {
             return contender.has_failed || contender.has_median();
           });
  }

  std::optional<double> run_once(std::size_t kernel, int repeats = 1) {
    last_run_ = kernel;
    return trials_.run_us(kernel, repeats);
  }

  void warm_up_first() {
    Contender first;
    first.typical_us = run_once(0).value_or(0);
    tried_count_ = 1;
    contenders_.push_back(first);
    if (!fits(first.typical_us, kAdmissionShare)) return;
    contenders_[0].typical_us = std::min(first.typical_us, run_once(0).value_or(0));
  }

  // Runs each of the others once to warm up, in the order of their predicted times, as far as the
  // budget goes. A first run may be slow for reasons that do not come again (code is loaded, pages
  // are touched), so that only a second slow one counts.
  void admit_others() {
    double best_us = contenders_[0].typical_us;
    for (std::size_t kernel = 1; kernel < predicted_us_.size(); ++kernel) {
      if (!fits(2 * expected_us(kernel), kAdmissionShare)) return;
      std::optional<double> us = run_once(kernel);
      ++tried_count_;
      if (us && *us > kHopeless * best_us && fits(*us, kAdmissionShare)) {
        std::optional<double> const again = run_once(kernel);
        us = again ? std::min(us, again) : again;
      }
      if (!us || *us > kHopeless * best_us) continue;
      contenders_.push_back({kernel, *us});
      best_us = std::min(best_us, *us);
    }
  }

  // The prediction, set right by how far it was off for the heuristic's choice.
  double expected_us(std::size_t kernel) const {
    double const scale = predicted_us_[0] > 0 ? contenders_[0].typical_us / predicted_us_[0] : 1.0;
    return scale * predicted_us_[kernel];
  }

  // Runs all contenders in turn, so that what changes with time meets all of them alike; every
  // other round backwards, so that none always comes after the same one.
  void compare() {
    for (int round = 0; round < kMaxRounds; ++round) {
      if (contenders_.size() == 1 && round >= kFewestRuns) return;
      for (std::size_t i = 0; i < contenders_.size(); ++i) {
        std::size_t const at = round % 2 == 0 ? i : contenders_.size() - 1 - i;
        if (!time(contenders_[at], kComparisonShare)) return;
      }
      drop_those_behind();
    }
  }

  // Takes one sample; false if there is no time for it. Nothing counts of a kernel that fails.
  bool time(Contender& contender, double share) {
    int const repeats = contender.repeats();
    if (!fits(repeats * contender.typical_us, share)) return false;
    std::optional<double> const us = run_once(contender.kernel, repeats);
    if (us) contender.runs_us.push_back(*us);
    contender.has_failed = !us;
    return true;
  }

  void drop_those_behind() {
    std::erase_if(contenders_, [](Contender const& contender) { return contender.has_failed; });
    if (!contenders_[0].has_median()) return;
    double const limit_us = kFallsBehind * median(fastest().runs_us);
    std::erase_if(contenders_, [limit_us](Contender const& contender) {
      return contender.kernel != 0 && median(contender.runs_us) > limit_us;
    });
  }

  // The fastest of those with enough runs; kernel 0 where there are none.
  Contender const& fastest() const {
    Contender const* best = &contenders_[0];
    for (Contender const& contender : contenders_) {
      if (!contender.has_median() || !best->has_median()) continue;
      if (median(contender.runs_us) < median(best->runs_us)) best = &contender;
    }
    return *best;
  }

  // The smallest of several medians is a little too small by chance alone, so the winner has to
  // win again, on runs of its own.
  void confirm(Contender challenger, Choice& choice) {
    Contender heuristic = contenders_[0];
    challenger.runs_us.clear();
    heuristic.runs_us.clear();
    for (int round = 0; round < kConfirmRounds; ++round) {
      bool const is_odd = round % 2 == 1;
      if (!time(is_odd ? challenger : heuristic, 1)) break;
      if (!time(is_odd ? heuristic : challenger, 1)) break;
      if (challenger.has_failed) return;
    }
    if (!challenger.has_median() || !heuristic.has_median()) {
      choice.is_measured = false;
    } else if (is_clearly_faster(challenger.runs_us, heuristic.runs_us)) {
      choice.kernel = challenger.kernel;
      choice.is_measured = true;
    }
  }

  void leave_results_of(Choice& choice) {
    if (last_run_ == choice.kernel || run_once(choice.kernel)) return;
    choice.kernel = 0;
    run_once(0);
  }

  std::span<const double> predicted_us_;  // of the front runners
  double budget_ms_;
  Trials& trials_;
  std::vector<Contender> contenders_;  // kernel 0 first, always
  std::size_t tried_count_ = 0;
  std::size_t last_run_ = 0;
};

}  // namespace

Choice choose_by_time(std::span<const double> predicted_us, double budget_ms, Trials& trials) {
  return Contest(predicted_us, budget_ms, trials).run();
}

bool is_clearly_faster(std::span<const double> challenger_us, std::span<const double> other_us) {
  double const other = median(other_us);
  double const noise = std::max({kMinGain * other, deviation(challenger_us), deviation(other_us)});
  return other - median(challenger_us) > noise;
}

}  // namespace msda
