// msda tune: which kernel is the fastest for a workload on this machine, by measure.
#include "command/commands/choices.h"
#include "command/commands/commands.h"
#include "command/commands/result_files.h"
#include "command/commands/wisdom.h"
#include "command/measure/plan_runner.h"
#include "command/report/progress_bar.h"
#include "command/report/tune_report.h"
#include "core/join.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace msda::command {

namespace {

constexpr std::size_t kNoFlush = 0;  // the tuner compares without, and so do the times shown
constexpr std::size_t kStepsOfWorkload = 4;

// Whether the handle has records, which are one a line below a title.
bool has_records(Engine const& engine) {
  std::string const text = engine.handle.tuning_export();
  return std::count(text.begin(), text.end(), '\n') > 1;
}

// Tunes with a handle of its own, so that its records are those of this workload; they are added to
// `records`.
TuneRow tune(Case const& input, std::string const& workload, Options const& options,
             Engine const& records, ProgressBar& progress) {
  TimingOptions const timing = timing_options(options, kNoFlush);
  Engine const engine(options.device, options.threads);
  TuneRow row;
  row.workload = workload;
  row.spec = input.spec;
  auto results = make_results(input.spec, {});
  {
    Runner heuristic(engine, input.spec, "");
    row.heuristic_id = heuristic.info().kernel_id;
    heuristic.bind(input, results);
    progress.step(fmt::format("{}  tuning", workload));
    row.tuned_id = heuristic.tune(engine, input.spec, options.budget_ms);
    progress.step(fmt::format("{}  {}  timing", workload, row.heuristic_id));
    row.before = time_runs(heuristic, timing);
  }
  row.is_recorded = has_records(engine);
  if (row.is_recorded) records.handle.tuning_import(engine.handle.tuning_export());
  progress.step(fmt::format("{}  {}  timing", workload, row.tuned_id));
  row.after = row.before;
  if (row.tuned_id != row.heuristic_id) {
    Runner tuned(engine, input.spec, row.tuned_id);
    tuned.bind(input, results);
    row.after = time_runs(tuned, timing);
  }
  return row;
}

std::vector<TuneRow> tune_all(std::vector<Workload> const& workloads, Options const& options,
                              Engine const& records) {
  std::vector<ProblemShape> specs;
  // All plans first: a problem that no kernel takes should not show after minutes of work.
  for (Workload const& workload : workloads) {
    specs.push_back(workload_spec(workload, options));
    Runner(records, specs.back(), "");
  }
  std::vector<TuneRow> rows;
  ProgressBar progress(kStepsOfWorkload * workloads.size());
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    progress.step(fmt::format("{}  making data", workloads[i].name));
    Case const input =
        random_case(workloads[i], specs[i], static_cast<std::uint64_t>(options.seed));
    rows.push_back(tune(input, workloads[i].name, options, records, progress));
  }
  return rows;
}

void note_those_without_record(std::vector<TuneRow> const& rows, double budget_ms) {
  std::vector<std::string> names;
  for (TuneRow const& row : rows) {
    if (!row.is_recorded) names.push_back(row.workload);
  }
  if (names.empty()) return;
  fmt::print(stderr,
             "note: {:g} ms were too short to compare kernels for {}: no record; --budget-ms gives "
             "more\n",
             budget_ms, join(names, ", "));
}

int run_tune(Options const& options) {
  std::vector<Workload> const workloads = chosen_workloads(options);
  ResultFiles files(options);
  Engine const records(options.device, options.threads);
  if (options.wisdom_to_add) merged_wisdom(files.file("wisdom"), records);  // refuses a damaged one
  std::vector<TuneRow> const rows = tune_all(workloads, options, records);
  TuneSettings settings;
  settings.threads = used_threads(options);
  settings.seed = options.seed;
  settings.budget_ms = options.budget_ms;
  settings.warmup = options.warmup;
  settings.flush_bytes = timing_options(options, kNoFlush).flush_bytes;
  if (options.json) files.add_text("json", tune_json(rows, settings));
  if (options.csv) files.add_text("csv", tune_csv(rows));
  std::optional<FolderLock> lock;
  if (options.wisdom_to_add) {
    lock.emplace(files.file("wisdom"));
    files.add_text("wisdom", merged_wisdom(files.file("wisdom"), records));
  }
  files.finish(tune_table(rows, settings) + options.environment_line());
  note_those_without_record(rows, options.budget_ms);
  return kExitOk;
}

}  // namespace

const Command kTuneCommand = {
    "tune",
    kTune,
    "find the fastest kernel for the standard workloads by measure",
    "Makes random data for each workload, times the kernels predicted to be fast, and prints the "
    "time\n"
    "of the kernel predicted fastest and of the one that is. With --wisdom the outcome goes into "
    "a\n"
    "file that `msda run` and `msda bench` take, as does msda_tuning_import() of the library.\n"
    "Without --workload and --levels it tunes the workloads of group main.",
    "",
    "Examples:\n"
    "  msda tune --workload enc-local --dtype bf16 --wisdom tuning.txt\n"
    "  msda bench --workload enc-local --dtype bf16 --wisdom tuning.txt\n"
    "  msda tune --workload all --device 0 --budget-ms 2000 --wisdom tuning.txt --csv tuning.csv\n"
    "  msda tune --levels 64x64,32x32 --queries 1000 --heads 4 --pattern local --threads 1",
    run_tune};

}  // namespace msda::command
