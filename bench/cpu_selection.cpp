// How far the kernel that a plan takes on the CPU is from the fastest one, on random problems.
//
//   msda_cpu_selection [--problems N] [--seed S] [--limit-ms MS]
//
// N problems (600): forward and backward, sampled and fused, on 1 and 2 threads, in turn; sizes are
// drawn evenly in their logarithm, from one query of one head to some milliseconds. All kernels
// that take a problem run in turns, and the least time of each counts: a machine that is busy adds
// to times and never takes from them. A kernel whose first run takes longer than 20 times the
// fastest one's, and --limit-ms (50), is not run again. Prints the problems whose choice is more
// than 1.25 times slower than the fastest kernel, and a summary. The exit status is 1 unless 97 %
// of the problems are within 1.25 and none is above 2.
#include "command/measure/plan_runner.h"
#include "command/problem/random_numbers.h"
#include "command/problem/workloads.h"
#include "core/dtype.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace msda::command;

constexpr double kNear = 1.25, kFar = 2.0, kLeastShare = 0.97;
constexpr int kRounds = 7;
constexpr double kRoundUs = 300;  // short calls are repeated for as long
constexpr std::int64_t kMaxCorners = 20'000'000, kMaxValues = 8'000'000;

struct Options {
  int problems = 600;
  std::uint64_t seed = 1;
  double limit_ms = 50;
};

std::int64_t log_uniform(Rng& rng, double low, double high) {
  return std::llround(low * std::pow(high / low, rng.unit()));
}

ProblemShape draw_shape(Rng& rng, int number) {
  ProblemShape shape;
  do {
    shape = {};
    auto const side = [&] { return static_cast<std::int32_t>(log_uniform(rng, 2, 200)); };
    std::int64_t const level_count = rng.integer(1, 4);
    auto const points = static_cast<std::int32_t>(rng.integer(1, 8));
    for (std::int64_t l = 0; l < level_count; ++l) shape.levels.push_back({side(), side(), points});
    shape.batch = rng.pick<std::int64_t>({1, 1, 2, 4});
    shape.head_count = rng.pick<std::int64_t>({1, 2, 4, 8, 8});
    shape.head_dim = rng.pick<std::int64_t>({1, 3, 8, 16, 30, 32, 32, 64, 128});
    shape.query_count = rng.chance(0.03) ? 0 : log_uniform(rng, 1, 20000);
    auto const type = static_cast<std::size_t>(rng.integer(0, std::ssize(msda::kDtypes) - 1));
    shape.set_dtypes(msda::kDtypes[type].dtype);
  } while (shape.batch * shape.head_count * shape.head_dim * shape.query_count *
                   shape.point_total() * 4 >
               kMaxCorners ||
           shape.batch * shape.head_count * shape.head_dim * shape.token_count() > kMaxValues);
  shape.operation = number % 2 == 0 ? MSDA_FORWARD : MSDA_BACKWARD;
  if (number / 2 % 2 == 1) shape.reference_dim = rng.pick({2, 4});
  return shape;
}

// One kernel on the case's tensors.
struct Contender {
  std::string kernel_id;
  std::unique_ptr<Runner> runner;
  double least_us = 0;
  bool is_out = false;
};

// Every kernel of the library that takes the problem; the plan's choice first.
std::vector<Contender> contenders(Engine const& engine, Case const& input,
                                  std::vector<NamedArray>& results) {
  std::vector<Contender> all;
  auto const add = [&](std::string const& kernel_id) {
    auto runner = std::make_unique<Runner>(engine, input.spec, kernel_id);
    runner->bind(input, results);
    std::string const id = runner->info().kernel_id;
    if (std::ranges::none_of(all, [&](Contender const& c) { return c.kernel_id == id; })) {
      all.push_back({id, std::move(runner)});
    }
  };
  add("");
  for (msda_kernel_info const& kernel : engine.handle.kernels()) {
    try {
      add(kernel.kernel_id);
    } catch (msda::Error const& error) {
      if (error.status() != MSDA_ERROR_UNSUPPORTED) throw;
    }
  }
  return all;
}

double least_time(Runner& runner, double us) {
  int const calls = std::clamp(static_cast<int>(kRoundUs / std::max(us, 0.1)), 1, 200);
  for (int i = 0; i < calls; ++i) us = std::min(us, runner.time_once(0));
  return us;
}

// How many times longer the choice takes than the fastest kernel, and a line about it.
double measure(Engine const& engine, Case const& input, Options const& options, std::string& line) {
  std::vector<NamedArray> results = make_results(input.spec, {});
  std::vector<Contender> all = contenders(engine, input, results);
  double fastest = HUGE_VAL;
  for (Contender& each : all) {
    each.least_us = each.runner->time_once(0);
    fastest = std::min(fastest, each.least_us);
  }
  for (Contender& each : all) {
    each.is_out = each.least_us > 20 * fastest && each.least_us > 1e3 * options.limit_ms;
  }
  for (int round = 0; round < kRounds && all.size() > 1; ++round) {
    for (Contender& each : all) {
      if (!each.is_out) each.least_us = least_time(*each.runner, each.least_us);
    }
  }
  auto const best = std::ranges::min_element(all, {}, &Contender::least_us);
  double const ratio = all.front().least_us / best->least_us;
  line = fmt::format("{:.2f}  {} {:.1f} us (predicted {:.1f}), {} {:.1f} us: {}", ratio,
                     all.front().kernel_id, all.front().least_us,
                     all.front().runner->info().predicted_us, best->kernel_id, best->least_us,
                     input.spec.describe());
  return ratio;
}

int run(Options const& options) {
  Engine const engines[2] = {{MSDA_DEVICE_CPU, 1}, {MSDA_DEVICE_CPU, 2}};
  Rng rng(options.seed);
  std::vector<double> ratios;
  for (int number = 0; number < options.problems; ++number) {
    Workload workload;
    workload.shape = draw_shape(rng, number);
    Case const input = random_case(workload, workload.shape, options.seed);
    std::string line;
    int const threads = 1 + number / 4 % 2;
    ratios.push_back(measure(engines[threads - 1], input, options, line));
    if (ratios.back() > kNear) std::printf("%d threads  %s\n", threads, line.c_str());
    std::fflush(stdout);
  }
  std::sort(ratios.begin(), ratios.end());
  auto const near = std::ranges::count_if(ratios, [](double ratio) { return ratio <= kNear; });
  double const share = static_cast<double>(near) / static_cast<double>(ratios.size());
  std::printf(
      "%zu problems: the choice is within %.2f of the fastest kernel on %.1f %%, worst %.2f\n",
      ratios.size(), kNear, 100 * share, ratios.back());
  return share >= kLeastShare && ratios.back() <= kFar ? 0 : 1;
}

Options read_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    std::string_view const word = argv[i];
    if (i + 1 == argc) throw std::runtime_error(std::string(word) + " needs a value");
    if (word == "--problems") {
      options.problems = std::max(std::atoi(argv[i + 1]), 1);
    } else if (word == "--seed") {
      options.seed = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (word == "--limit-ms") {
      options.limit_ms = std::atof(argv[i + 1]);
    } else {
      throw std::runtime_error("unknown option " + std::string(word));
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(read_options(argc, argv));
  } catch (std::exception const& error) {
    std::fprintf(stderr, "msda_cpu_selection: %s\n", error.what());
    return 1;
  }
}
