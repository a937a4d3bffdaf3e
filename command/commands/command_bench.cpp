// msda bench: workloads of random data, checked first and then timed.
#include "command/check/accuracy_check.h"
#include "command/commands/case_input.h"
#include "command/commands/choices.h"
#include "command/commands/options.h"
#include "command/commands/result_files.h"
#include "command/commands/wisdom.h"
#include "command/files/input_error.h"
#include "command/measure/plan_runner.h"
#include "command/report/bench_report.h"
#include "command/report/progress_bar.h"
#include "command/report/report_parts.h"
#include "core/join.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace msda::command {

namespace {

constexpr std::int64_t kCheckQueries = 64;

int list_workloads() {
  Cells rows = {
      {"workload", "group", "levels", "points", "pattern", "B", "M", "D", "Q", "what it is"}};
  for (Workload const& workload : all_workloads()) {
    ProblemShape const& shape = workload.shape;
    rows.push_back({workload.name, workload.group, pairs_text(shape.level_hw()),
                    join(shape.point_counts(), ","), workload.local ? "local" : "uniform",
                    std::to_string(shape.batch), std::to_string(shape.head_count),
                    std::to_string(shape.head_dim), std::to_string(shape.query_count),
                    workload.note});
  }
  fmt::print("{}", table_text(rows, rows[0].size()));
  return kExitOk;
}

int save_inputs(std::vector<Workload> const& workloads, std::vector<Options> const& runs) {
  if (workloads.size() * runs.size() != 1) {
    bad_input("--save-inputs writes one workload: {} were chosen", workloads.size() * runs.size());
  }
  Options const& options = runs[0];
  ResultFiles files(options);
  ProblemShape const spec = workload_spec(workloads[0], options);
  Case const input = random_case(workloads[0], spec, static_cast<std::uint64_t>(options.seed));
  files.add_arrays("save-inputs", case_arrays(input));
  files.finish(fmt::format("{}: {}\n{}", *options.save_inputs, sizes_text(spec),
                           options.environment_line()));
  return kExitOk;
}

// The kernels to measure for a problem: each id that takes it.
std::vector<std::string> chosen_kernels(Engine const& engine, ProblemShape const& spec,
                                        Options const& options) {
  bool const best_only =
      options.kernels.empty() || options.kernels == std::vector<std::string>{"best"};
  if (best_only) return {Runner(engine, spec, "").info().kernel_id};
  if (options.kernels != std::vector<std::string>{"all"}) return options.kernels;
  std::vector<std::string> ids;
  for (msda_kernel_info const& kernel : engine.handle.kernels()) {
    try {
      ids.emplace_back(Runner(engine, spec, kernel.kernel_id).info().kernel_id);
    } catch (Error const& error) {
      if (error.status() != MSDA_ERROR_UNSUPPORTED) throw;  // `msda explain` has the reasons
    }
  }
  return ids;
}

CheckOptions check_options(Options const& options) {
  if (options.check_mode == CheckMode::kNone && options.check_queries) {
    bad_input("{} is {}: with {} none there is no sample", options.label("check-queries"),
              *options.check_queries, options.label("check"));
  }
  return {options.check_mode, options.check_queries.value_or(kCheckQueries),
          static_cast<std::uint64_t>(options.seed), options.threads};
}

// Checks, and times only what is right.
BenchRow measure(Case const& input, AccuracyCheck const& check, Engine const& engine,
                 std::string const& id, Options const& options, ProgressBar& progress,
                 std::string const& workload) {
  BenchRow row;
  row.workload = workload;
  row.threads = used_threads(options);
  row.spec = input.spec;
  row.check_mode = options.check_mode;
  row.reference_id = check.reference_id();
  Runner runner(engine, input.spec, id);
  row.kernel_id = runner.info().kernel_id;
  row.predicted_us = runner.info().predicted_us;
  row.workspace_bytes = runner.info().workspace_bytes;
  auto results = make_results(input.spec, {});
  for (auto const& [name, array] : results) row.element_count += array.element_count();
  runner.bind(input, results);
  progress.step(fmt::format("{}  {}  checking", workload, id));
  if (options.check_mode != CheckMode::kNone) {
    runner.execute();
    runner.fetch();
    row.accuracy = check.check(results, id);
  }
  progress.step(fmt::format("{}  {}  timing", workload, id));
  if (row.accuracy.passed())
    row.timing = time_runs(runner, timing_options(options, bench_flush_bytes(options)));
  return row;
}

// The options of each of the runs asked for: each number of threads with each type.
std::vector<Options> single_runs(Options const& options) {
  std::vector<Options> runs(1, options);
  auto const vary = [&runs](auto const& values, auto member) {
    if (values.empty()) return;
    std::vector<Options> varied;
    for (Options const& run : runs) {
      for (auto const& value : values) {
        varied.push_back(run);
        varied.back().*member = value;
      }
    }
    runs = std::move(varied);
  };
  vary(options.thread_counts, &Options::threads);
  vary(options.dtypes, &Options::dtype);
  return runs;
}

// A workload in one run.
struct Job {
  Workload const& workload;
  Options const& options;
  Engine const& engine;
  ProblemShape spec;
  std::vector<std::string> kernels;
};

std::vector<BenchRow> measure_all(std::vector<Workload> const& workloads,
                                  std::vector<Options> const& runs) {
  std::vector<Engine> engines;
  for (Options const& run : runs) engines.push_back(make_engine(run));
  std::vector<Job> jobs;
  std::size_t step_count = 0;
  // All plans first: a kernel that does not exist should not show after minutes of work.
  for (Workload const& workload : workloads) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      ProblemShape const spec = workload_spec(workload, runs[i]);
      jobs.push_back(
          {workload, runs[i], engines[i], spec, chosen_kernels(engines[i], spec, runs[i])});
      for (std::string const& id : jobs.back().kernels) Runner(engines[i], spec, id);
      step_count += 2 + 2 * jobs.back().kernels.size();
    }
  }
  std::vector<BenchRow> rows;
  ProgressBar progress(step_count);
  for (Job const& job : jobs) {
    std::string const& name = job.workload.name;
    progress.step(fmt::format("{}  making data", name));
    Case const input =
        random_case(job.workload, job.spec, static_cast<std::uint64_t>(job.options.seed));
    progress.step(fmt::format("{}  exact results", name));
    AccuracyCheck const check(input, job.engine, check_options(job.options));
    for (std::string const& id : job.kernels) {
      rows.push_back(measure(input, check, job.engine, id, job.options, progress, name));
    }
  }
  return rows;
}

int run_bench(Options const& options) {
  if (options.list) return list_workloads();
  std::vector<Workload> const workloads = chosen_workloads(options);
  std::vector<Options> const runs = single_runs(options);
  if (options.save_inputs) return save_inputs(workloads, runs);
  check_options(options);
  if (options.csv && options.thread_counts.size() > 1) {
    bad_input("{} is '{}': it has no column for {}; give one number of threads",
              options.label("csv"), *options.csv, options.label("threads"));
  }
  BenchSettings settings;
  for (Options const& run : runs) {
    unsigned const threads = used_threads(run);
    if (std::ranges::find(settings.threads, threads) == settings.threads.end())
      settings.threads.push_back(threads);
  }
  settings.seed = options.seed;
  settings.warmup = options.warmup;
  settings.flush_bytes = timing_options(options, bench_flush_bytes(options)).flush_bytes;
  ResultFiles files(options);
  std::vector<BenchRow> const rows = measure_all(workloads, runs);
  if (options.json) files.add_text("json", bench_json(rows, settings));
  if (options.csv) files.add_text("csv", bench_csv(rows));
  if (options.plot) files.add_plot("plot", bench_plot(rows, settings));
  files.finish(bench_table(rows, settings) + options.environment_line());
  int exit_code = kExitOk;
  for (BenchRow const& row : rows) {
    if (row.accuracy.passed()) continue;
    fmt::print(stderr, "msda bench: {}: {}: {}\n", row.workload, row.kernel_id,
               wrong_text(row.accuracy));
    exit_code = kExitCheckFailed;
  }
  return exit_code;
}

}  // namespace

const Command kBenchCommand = {
    "bench",
    kBench,
    "check and time kernels on the standard workloads",
    "Makes random data for each workload, checks each kernel against the float64 reference, times "
    R"(it,
and prints a table. The check is of a sample of the queries; --check all is of every element.
What fails the check is not timed and makes the exit code 1.
Without --workload and --levels it runs the workloads of group main.)",
    "",
    R"(Examples:
  msda bench --list
  msda bench --workload enc-uniform --batch 1 --threads 1
  msda bench --workload main --dtype bf16 --json times.json --plot times.svg
  msda bench --workload rtdetr,dec --kernels all --csv times.csv
  msda bench --workload rtdetr --check all
  msda bench --workload dec --threads 1,2 --dtype f32,f16
  msda bench --workload enc-local --wisdom tuning.txt
  msda bench --levels 64x64,32x32 --queries 1000 --heads 4 --points 3,6 --pattern local
  msda bench --workload dec --save-inputs dec.npz)",
    run_bench};

}  // namespace msda::command
