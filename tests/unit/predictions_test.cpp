// Are the predicted times good enough to choose by? Against the times kept in bench/baselines.

#include "api/objects.h"
#include "core/build_config.h"
#include "plan/selector.h"
#include "support/element_formats.h"
#include "support/expected_reason.h"
#include "support/h200.h"
#include "support/source_path.h"
#include "support/test_problem.h"

#include <doctest/doctest.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

using namespace msda;
using namespace msda::test;

namespace {

// Problems of bench/workloads.json by name, with the hint that is right for their pattern.
std::map<std::string, ProblemShape> workloads() {
  std::ifstream file(source_path("bench/workloads.json"));
  std::map<std::string, ProblemShape> shapes;
  nlohmann::json const all = nlohmann::json::parse(file);
  for (auto const& entry : all["workloads"]) {
    ProblemShape& shape = shapes[entry["name"]];
    shape.batch = entry["batch"];
    shape.head_count = entry["heads"];
    shape.head_dim = entry["channels"];
    shape.query_count = entry["queries"];
    shape.point_locality =
        entry["pattern"] == "uniform" ? MSDA_POINTS_SCATTERED : MSDA_POINTS_LOCAL;
    for (std::size_t l = 0; l < entry["levels"].size(); ++l) {
      shape.levels.push_back({entry["levels"][l][0], entry["levels"][l][1], entry["points"][l]});
    }
    if (!entry.contains("reference_grid")) continue;
    std::int32_t const width = entry["reference_grid"][1];
    std::int32_t const rows = entry["queries"].get<std::int32_t>() / width;
    shape.query_hw = {rows, width, 1, entry["queries"].get<std::int32_t>() - rows * width};
  }
  return shapes;
}

struct Measured {
  ProblemShape shape;
  std::map<std::string, double> times_us;  // by kernel id
};

std::vector<std::string> split(std::string const& line) {
  std::vector<std::string> cells;
  std::istringstream cells_of_line(line);
  for (std::string cell; std::getline(cells_of_line, cell, ',');) cells.push_back(cell);
  return cells;
}

// Forward rows of a baseline by workload, type, mode and input; its columns may be more.
std::map<std::string, Measured> measurements(std::string const& path) {
  std::map<std::string, ProblemShape> const shapes = workloads();
  std::map<std::string, Measured> measured;
  std::ifstream file(path);
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::vector<std::string> const cells = split(line);
    if (names.empty()) {
      names = cells;
      continue;
    }
    REQUIRE(cells.size() == names.size());
    auto const cell = [&](std::string_view name) {
      auto const column = std::find(names.begin(), names.end(), name) - names.begin();
      return cells.at(static_cast<std::size_t>(column));
    };
    if (cell("operation") != "forward") continue;
    std::string const dtype = cell("value_dtype"), mode = cell("math_mode");
    std::string const workload = cell("workload"), input = cell("input_mode");
    Measured& row = measured[fmt::format("{} {} {} {}", workload, dtype, mode, input)];
    row.shape = shapes.at(workload);
    row.shape.reference_dim = input == "sampled" ? 0 : input == "fused2" ? 2 : 4;
    row.shape.set_dtypes(type_from_name(dtype).value());
    row.shape.math_mode = mode == "fast" ? MSDA_MATH_FAST : MSDA_MATH_ACCURATE;
    row.times_us[cell("kernel_id")] = std::stod(cell("median_us"));
  }
  return measured;
}

// Whether the problem says where its points land.
enum class Hint : bool { kUnknown, kGiven };

std::vector<Ranked> ranking_of(Measured const& measured, Hint hint) {
  ProblemShape shape = measured.shape;
  if (hint == Hint::kUnknown) shape.point_locality = MSDA_POINTS_UNKNOWN;
  ProblemCopy const view = shape.copy();
  Problem const problem = api::canonical_problem(&view.c, std::pmr::new_delete_resource());
  return rank_kernels(problem, h200(), 0);
}

// How much longer the kernel that a plan chooses takes than the fastest one.
struct Regret {
  double beside_all = 0;
  double beside_choosable = 0;  // the fastest of those that may be chosen by prediction
  std::string chosen, fastest;  // of all
};

double time_of(Measured const& measured, Ranked const& ranked) {
  auto const found = measured.times_us.find(ranked.kernel.variant->id);
  return found == measured.times_us.end() || ranked.rejected != Reason::kNone ? 0 : found->second;
}

Regret regret_of(Measured const& measured, std::vector<Ranked> const& ranking) {
  Regret regret;
  double chosen = 0, fastest = 0, choosable = 0;
  for (Ranked const& ranked : ranking) {
    double const us = time_of(measured, ranked);
    if (us == 0) continue;
    if (fastest == 0 || us < fastest) {
      fastest = us;
      regret.fastest = ranked.kernel.variant->id;
    }
    if (!ranked.may_be_chosen) continue;
    choosable = choosable == 0 ? us : std::min(choosable, us);
    if (chosen == 0) {
      chosen = us;
      regret.chosen = ranked.kernel.variant->id;
    }
  }
  regret.beside_all = chosen / fastest - 1;
  regret.beside_choosable = chosen / choosable - 1;
  return regret;
}

// On fp8's enc-uniform the kernel that spreads a row over a warp's slots (s4) is the fastest,
// which is predicted to take a little longer than the chosen one: on random problems it mostly
// does.
constexpr const char* kSpreadRow = "enc-uniform f8_e4m3 accurate sampled";
constexpr double kLimitOfSpreadRow = 0.12;
// Its kernels take 6 to 7 us: the quartiles of the chosen one and of the fastest meet (6.2 to 7.0
// and 6.0 to 6.2), and the run before had them the other way round.
constexpr const char* kShortRow = "rf-detr f32 accurate sampled";
constexpr double kLimitOfShortRow = 0.12;

// A plan that is not told does not know where points land. Points anywhere on large maps are where
// kernels that keep levels in shared memory gain, and it does not choose those: they cost up to a
// fifth where points are local. So these rows have limits of their own beside all kernels.
constexpr double kLimit = 0.1;
const std::map<std::string, double> kLimitsBesideAll = {
    {"bev-fold f16 fast sampled", 0.18},       {"bev-fold f16 fast fused2", 0.12},
    {"bev-fold f8_e4m3 fast sampled", 0.14},   {"enc-uniform f32 accurate sampled", 0.15},
    {"enc-uniform f32 accurate fused2", 0.14}, {"enc-uniform f16 accurate sampled", 0.13},
    {"enc-uniform f16 fast sampled", 0.23},    {"enc-uniform f16 accurate fused2", 0.14},
    {"enc-uniform f16 fast fused2", 0.23},     {"enc-uniform f8_e4m3 fast sampled", 0.22},
    {kSpreadRow, kLimitOfSpreadRow},           {kShortRow, kLimitOfShortRow},
};
// What is the fastest here, where points land anywhere, takes 29 % longer than the chosen kernel
// where they are local (enc-local).
const std::map<std::string, double> kLimitsBesideChoosable = {
    {"enc-uniform f8_e4m3 fast sampled", 0.12},
    {kSpreadRow, kLimitOfSpreadRow},
    {kShortRow, kLimitOfShortRow},
};

double limit_of(std::map<std::string, double> const& limits, std::string const& name) {
  auto const found = limits.find(name);
  return found == limits.end() ? kLimit : found->second;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string summary(const char* beside, std::vector<double> const& regrets) {
  double sum = 0;
  for (double const regret : regrets) sum += regret;
  return fmt::format("regret beside {}: median {:.1f} %, mean {:.1f} %, worst {:.1f} %", beside,
                     100 * median(regrets), 100 * sum / static_cast<double>(regrets.size()),
                     100 * *std::max_element(regrets.begin(), regrets.end()));
}

constexpr bool kHasGpuKernels = MSDA_HAS_CUDA != 0;
constexpr const char* kBaseline = "bench/baselines/h200.csv";

}  // namespace

TEST_CASE("on an H200 the kernel chosen without a hint is nearly the fastest one measured" *
          doctest::skip(!kHasGpuKernels)) {
  auto const rows = measurements(source_path(kBaseline));
  CHECK(rows.size() > 40);
  std::vector<double> beside_all, beside_choosable;
  for (auto const& [name, measured] : rows) {
    CAPTURE(name);
    Regret const regret = regret_of(measured, ranking_of(measured, Hint::kUnknown));
    REQUIRE_FALSE(regret.chosen.empty());
    CHECK(regret.beside_all < limit_of(kLimitsBesideAll, name));
    CHECK(regret.beside_choosable < limit_of(kLimitsBesideChoosable, name));
    beside_all.push_back(regret.beside_all);
    beside_choosable.push_back(regret.beside_choosable);
    if (regret.beside_all < 0.05) continue;
    MESSAGE(fmt::format("{}: {} is {:.1f} % slower than {}", name, regret.chosen,
                        100 * regret.beside_all, regret.fastest));
  }
  MESSAGE(fmt::format("{} problems; {}; {}", rows.size(), summary("all kernels", beside_all),
                      summary("those that may be chosen", beside_choosable)));
  CHECK(median(beside_all) < 0.01);
  CHECK(median(beside_choosable) < 0.01);
  for (auto const& limits : {kLimitsBesideAll, kLimitsBesideChoosable}) {
    for (auto const& [name, limit] : limits) CHECK_MESSAGE(rows.contains(name), name);
  }
}

TEST_CASE("on an H200 the kernel chosen with the hint is nearly the fastest one measured" *
          doctest::skip(!kHasGpuKernels)) {
  constexpr double kLimitWithHint = 0.08;
  std::map<std::string, double> const limits = {{kSpreadRow, kLimitOfSpreadRow},
                                                {kShortRow, kLimitOfShortRow}};
  std::vector<double> regrets;
  int caching = 0, for_local = 0;
  for (auto const& [name, measured] : measurements(source_path(kBaseline))) {
    CAPTURE(name);
    std::vector<Ranked> const ranking = ranking_of(measured, Hint::kGiven);
    Regret const regret = regret_of(measured, ranking);
    CAPTURE(regret.chosen);
    CAPTURE(regret.fastest);
    CHECK(regret.beside_all < (limits.contains(name) ? limits.at(name) : kLimitWithHint));
    regrets.push_back(regret.beside_all);
    bool const is_scattered = measured.shape.point_locality == MSDA_POINTS_SCATTERED;
    if (ranking.front().kernel.variant->for_local_points) {
      ++for_local;
    } else if (!is_scattered) {
      CHECK(ranking.front().kernel.variant ==
            ranking_of(measured, Hint::kUnknown).front().kernel.variant);
    } else if (caches_levels(regret.fastest)) {
      CHECK(regret.chosen == regret.fastest);
      ++caching;
    }
  }
  MESSAGE(fmt::format("{} problems, {} of which choose cached levels and {} windows; {}",
                      regrets.size(), caching, for_local, summary("all kernels", regrets)));
  CHECK(caching >= 10);
  CHECK(for_local >= 2);
}

// The id of the same kernel without cached levels but for its architecture and revision.
std::string uncached(std::string const& id) {
  std::size_t const begin = id.find('.', id.find('.') + 1), end = id.rfind('c', id.find('@'));
  return id.substr(begin, end - begin) + "@";
}

TEST_CASE("on an H200 what cached levels change for scattered points is predicted" *
          doctest::skip(!kHasGpuKernels)) {
  int compared = 0;
  for (auto const& [name, measured] : measurements(source_path(kBaseline))) {
    if (measured.shape.point_locality != MSDA_POINTS_SCATTERED) continue;
    std::vector<Ranked> const ranking = ranking_of(measured, Hint::kGiven);
    for (Ranked const& cached : ranking) {
      std::string const id = cached.kernel.variant->id;
      if (!caches_levels(id) || cached.kernel.variant->unproven) continue;
      if (time_of(measured, cached) == 0) continue;
      auto const other = std::ranges::find_if(ranking, [&](Ranked const& ranked) {
        std::string_view const other_id = ranked.kernel.variant->id;
        return other_id.starts_with("persistent.") && other_id.find(uncached(id)) != other_id.npos;
      });
      REQUIRE(other != ranking.end());
      double const ratio = time_of(measured, cached) / time_of(measured, *other);
      CAPTURE(name);
      CAPTURE(id);
      CAPTURE(ratio);
      CHECK(std::abs(std::log(cached.predicted_us / other->predicted_us / ratio)) < 0.1);
      ++compared;
    }
  }
  CHECK(compared > 20);
}

// Where points land decides what misses L1 and is not in the predictions of a plan that is not
// told.
TEST_CASE("on an H200 predictions are times, those of kernels that are left out too" *
          doctest::skip(!kHasGpuKernels)) {
  struct Errors {
    std::size_t count = 0;
    double sum = 0, squares = 0, worst = 0;
  };
  std::map<bool, Errors> all;  // by whether they are left out
  for (auto const& [name, measured] : measurements(source_path(kBaseline))) {
    for (Ranked const& ranked : ranking_of(measured, Hint::kUnknown)) {
      double const us = time_of(measured, ranked);
      Variant const& variant = *ranked.kernel.variant;
      if (us == 0 || variant.unproven) continue;
      if (variant.for_local_points && measured.shape.point_locality != MSDA_POINTS_LOCAL) continue;
      double const error = std::log(ranked.predicted_us / us);
      CAPTURE(name);
      CAPTURE(variant.id);
      CAPTURE(us);
      CAPTURE(ranked.predicted_us);
      CHECK(std::abs(error) < std::log(2.0));
      Errors& errors = all[!variant.suits(MSDA_POINTS_UNKNOWN)];
      ++errors.count;
      errors.sum += error;
      errors.squares += error * error;
      errors.worst = std::max(errors.worst, std::abs(error));
    }
  }
  REQUIRE(all.size() == 2);
  for (auto const& [is_left_out, errors] : all) {
    double const count = static_cast<double>(errors.count);
    double const mean = std::exp(errors.sum / count);
    double const size = std::exp(std::sqrt(errors.squares / count));
    MESSAGE(fmt::format(
        "{} times of kernels {}: predictions are {:.3f} of them in the mean, off by a factor of "
        "{:.2f} in the mean and of {:.2f} at most",
        errors.count, is_left_out ? "that are left out" : "that may be chosen", mean, size,
        std::exp(errors.worst)));
    CHECK(errors.count > 40);
    CHECK(mean > 0.9);
    CHECK(mean < 1.1);
    CHECK(size < 1.25);
  }
}

TEST_CASE("kernels for scattered points are ranked and without the hint never the first" *
          doctest::skip(!kHasGpuKernels)) {
  int tried = 0, predicted_faster = 0;
  for (auto const& [name, measured] : measurements(source_path(kBaseline))) {
    CAPTURE(name);
    std::vector<Ranked> const ranking = ranking_of(measured, Hint::kUnknown);
    CHECK(ranking.front().may_be_chosen);
    double last_us = 0;
    for (Ranked const& ranked : std::span(ranking).subspan(1)) {
      if (ranked.rejected != Reason::kNone) break;
      CHECK(ranked.predicted_us >= last_us);
      last_us = ranked.predicted_us;
      if (ranked.may_be_chosen) {
        CHECK(ranked.predicted_us >= ranking.front().predicted_us);
        continue;
      }
      ++tried;
      predicted_faster += ranked.predicted_us < ranking.front().predicted_us ? 1 : 0;
      Variant const& variant = *ranked.kernel.variant;
      std::string const line = fmt::format("  {}  predicted {:.1f} us, only chosen {}by tuning\n",
                                           variant.id, ranked.predicted_us,
                                           variant.unproven           ? ""
                                           : variant.for_local_points ? "for local points or "
                                                                      : "for scattered points or ");
      CHECK(explain_text(ranking).find(line) != std::string::npos);
    }
    std::string const first = explain_text({ranking.front()});
    CHECK(first == fmt::format("1  {}  predicted {:.1f} us\n", ranking.front().kernel.variant->id,
                               ranking.front().predicted_us));
  }
  CHECK(tried > 40);
  CHECK(predicted_faster > 0);  // else the flag would make no difference
}

TEST_CASE("the kernels that keep levels are those for scattered points") {
  for (KernelRef const& kernel : all_kernels()) {
    Variant const& variant = *kernel.variant;
    CAPTURE(variant.id);
    CHECK(variant.for_scattered_points == (caches_levels(variant.id) && !variant.unproven));
  }
}
