#include "command/commands/choices.h"

#include "command/commands/case_input.h"
#include "command/commands/input_arrays.h"
#include "command/files/input_error.h"
#include "command/files/parallel.h"
#include "command/files/text_values.h"
#include "core/join.h"

#include <unistd.h>

#include <algorithm>
#include <functional>

namespace msda::command {
namespace {

// The sizes given by options replace the workload's; returns which, as "batch=1 heads=4".
std::string override_sizes(Workload& workload, Options const& options) {
  std::string changes;
  auto const replace = [&changes](const char* name, std::optional<std::int64_t> const& given,
                                  std::int64_t& size) {
    if (!given || *given == size) return;
    size = *given;
    changes += fmt::format("{}{}={}", changes.empty() ? "" : " ", name, size);
  };
  ProblemShape& shape = workload.shape;
  bool const queries_are_pixels = workload.has_query_per_pixel();
  std::vector<std::int32_t> const level_hw = options.levels.value_or(shape.level_hw());
  std::vector<std::int32_t> const old_points = shape.point_counts();
  bool const other_levels = level_hw != shape.level_hw();
  if (other_levels) changes += "levels";
  std::vector<std::int32_t> points = options.points.value_or(old_points);
  // The workload's number is for every level, where its levels do not differ.
  bool const is_uniform = std::ranges::adjacent_find(points, std::not_equal_to<>()) == points.end();
  if (!options.points && is_uniform && !points.empty()) points.resize(1);
  shape.levels = levels_with(points, level_hw, options.label("points"), "numbers: there are");
  if (other_levels && queries_are_pixels) shape.query_count = workload.pixel_count();
  replace("batch", options.batch, shape.batch);
  replace("heads", options.heads, shape.head_count);
  replace("channels", options.channels, shape.head_dim);
  replace("queries", options.queries, shape.query_count);
  bool const other_points = options.points && shape.point_counts() != old_points;
  if (other_points) changes += changes.empty() ? "points" : " points";
  return changes;
}

Workload described_by(Options const& options) {
  if (!options.levels) {
    bad_input("--levels is missing: give --workload, or the sizes of a problem");
  }
  Workload workload;
  workload.name = "custom";
  workload.local = options.pattern == "local";
  workload.shape.head_count = 8;
  workload.shape.head_dim = 32;
  workload.shape.levels = make_levels(*options.levels, {4});
  workload.shape.query_count = workload.pixel_count();
  override_sizes(workload, options);
  return workload;
}

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr std::size_t kMinFlushBytes = 64 * kMebibyte;
// A machine may report the cache of far more cores than can be used here.
constexpr std::size_t kMaxFlushBytes = 256 * kMebibyte;

}  // namespace

std::vector<Workload> chosen_workloads(Options const& options, const char* otherwise) {
  std::vector<std::string> wanted = options.workloads;
  if (wanted.empty() && !options.levels && otherwise != nullptr) wanted = {otherwise};
  if (wanted.empty()) return {described_by(options)};
  std::vector<Workload> chosen;
  for (std::string const& name : wanted) {
    std::size_t const before = chosen.size();
    std::vector<std::string> names = {"main", "all"};
    for (Workload const& workload : all_workloads()) {
      names.push_back(workload.name);
      bool const is_wanted = name == workload.name || name == "all" || name == workload.group;
      if (is_wanted) chosen.push_back(workload);
    }
    if (chosen.size() == before) {
      bad_input("{} names an unknown workload '{}'; there are {}{}", options.label("workload"),
                name, join(names, ", "), suggestion(name, names));
    }
  }
  for (Workload& workload : chosen) {
    std::string const changes = override_sizes(workload, options);
    if (!changes.empty()) workload.name += fmt::format("[{}]", changes);
  }
  return chosen;
}

ProblemShape workload_spec(Workload const& workload, Options const& options) {
  ProblemShape spec = workload.shape;
  spec.value_border = options.value_border.value_or(0);
  if (options.level_start) {
    spec.level_start = *options.level_start;
    if (spec.level_start.size() != spec.levels.size()) {
      bad_input("{} has {} numbers: there are {} levels", options.label("level-start"),
                spec.level_start.size(), spec.levels.size());
    }
  }
  spec.tokens = options.tokens.value_or(0);
  spec.reference_dim = options.fused.value_or(0);
  set_computation(options, spec);
  if (spec.value_dtype == MSDA_DTYPE_NONE) spec.value_dtype = MSDA_DTYPE_F32;
  spec.resolve_dtypes();
  spec.point_locality = options.point_locality == kOfPattern
                            ? (workload.local ? MSDA_POINTS_LOCAL : MSDA_POINTS_SCATTERED)
                            : parse_locality(options.point_locality);
  // The hint of where queries lie: the pixels of the levels, or rows of the grid and what is left.
  if (workload.has_query_per_pixel()) {
    spec.query_hw = spec.level_hw();
  } else if (workload.reference_grid) {
    auto const width = (*workload.reference_grid)[1];
    auto const rows = static_cast<std::int32_t>(spec.query_count / width);
    auto const rest = static_cast<std::int32_t>(spec.query_count % width);
    spec.query_hw = {rows, static_cast<std::int32_t>(width)};
    if (rest > 0) spec.query_hw.insert(spec.query_hw.end(), {1, rest});
  }
  return spec;
}

TimingOptions timing_options(Options const& options, std::size_t default_flush_bytes) {
  return {.warmup = options.warmup,
          .iterations = options.iterations,
          .seconds_limit = options.seconds,
          .flush_bytes = options.flush_mib
                             ? static_cast<std::size_t>(*options.flush_mib) * kMebibyte
                             : default_flush_bytes};
}

std::size_t bench_flush_bytes(Options const& options) {
  if (options.device >= 0) return kMaxFlushBytes;
  auto const cache = static_cast<std::size_t>(std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), 0L));
  return std::clamp(2 * cache, kMinFlushBytes, kMaxFlushBytes);
}

unsigned used_threads(Options const& options) {
  return options.threads == 0 ? hardware_threads() : static_cast<unsigned>(options.threads);
}

}  // namespace msda::command
