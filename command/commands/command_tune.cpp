// msda tune: which kernel is the fastest for a workload on this machine, by measure.
#include "command/commands/choices.h"
#include "command/commands/options.h"
#include "command/commands/result_files.h"
#include "command/commands/wisdom.h"
#include "command/files/element_type.h"
#include "command/measure/plan_runner.h"
#include "command/report/progress_bar.h"
#include "command/report/report_parts.h"
#include "core/join.h"

#include <fmt/core.h>

#include <algorithm>

namespace msda::command {

namespace {

constexpr std::size_t kNoFlush = 0;  // the tuner compares without, and so do the times shown
constexpr std::size_t kStepsOfWorkload = 4;

struct TuneRow {
  std::string workload;
  ProblemShape spec;
  std::string heuristic_id;
  Timing before;  // of the heuristic's kernel
  std::string tuned_id;
  Timing after;  // of the tuned kernel; where it is the same, the same runs
  bool is_recorded = false;

  double speedup() const { return before.median() / after.median(); }
};

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

std::string tune_table(std::vector<TuneRow> const& rows, Options const& options) {
  Cells cells = {{"workload", "value", "coord", "predicted fastest", "tuned", "before", "after",
                  "speedup", "record"}};
  for (TuneRow const& row : rows) {
    cells.push_back({row.workload, std::string(type_name(row.spec.value_dtype)),
                     std::string(type_name(row.spec.coord_dtype)), row.heuristic_id, row.tuned_id,
                     time_text(row.before.median()), time_text(row.after.median()),
                     fmt::format("{:.2f}x", row.speedup()), row.is_recorded ? "yes" : "no"});
  }
  return fmt::format("{}; {:g} ms to choose; medians\n{}", machine_text(used_threads(options)),
                     options.budget_ms, table_text(cells, 5));
}

std::string tune_json(std::vector<TuneRow> const& rows, Options const& options) {
  Json json = report_json({{"threads", used_threads(options)},
                           {"seed", options.seed},
                           {"budget_ms", options.budget_ms},
                           {"warmup", options.warmup},
                           {"flush_bytes", timing_options(options, kNoFlush).flush_bytes}});
  for (TuneRow const& row : rows) {
    json["results"].push_back(
        {{"workload", row.workload},
         {"problem", problem_json(row.spec)},
         {"before", {{"kernel_id", row.heuristic_id}, {"time_us", timing_json(row.before)}}},
         {"after", {{"kernel_id", row.tuned_id}, {"time_us", timing_json(row.after)}}},
         {"speedup", row.speedup()},
         {"recorded", row.is_recorded}});
  }
  return json.dump(2) + "\n";
}

std::string tune_csv(std::vector<TuneRow> const& rows) {
  std::string text =
      "workload,operation,value_dtype,coord_dtype,math_mode,input_mode,before_id,before_us,"
      "after_id,after_us,speedup,recorded\n";
  for (TuneRow const& row : rows) {
    text += fmt::format("{},{},{},{},{},{},{},{:.1f},{},{:.1f},{:.3f},{}\n", row.workload,
                        operation_name(row.spec), type_name(row.spec.value_dtype),
                        type_name(row.spec.coord_dtype), math_name(row.spec), input_name(row.spec),
                        row.heuristic_id, row.before.median(), row.tuned_id, row.after.median(),
                        row.speedup(), row.is_recorded ? 1 : 0);
  }
  return text;
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
  if (options.json) files.add_text("json", tune_json(rows, options));
  if (options.csv) files.add_text("csv", tune_csv(rows));
  Descriptor const lock =
      options.wisdom_to_add ? lock_folder(files.file("wisdom")) : Descriptor(-1);
  if (options.wisdom_to_add) {
    files.add_text("wisdom", merged_wisdom(files.file("wisdom"), records));
  }
  files.finish(tune_table(rows, options) + options.environment_line());
  note_those_without_record(rows, options.budget_ms);
  return kExitOk;
}

}  // namespace

const Command kTuneCommand = {
    "tune",
    kTune,
    "find the fastest kernel for the standard workloads by measure",
    "Makes random data for each workload, times the kernels predicted to be fast, and prints the "
    R"(time
of the kernel predicted fastest and of the one that is. With --wisdom the outcome goes into a
file that `msda run` and `msda bench` take, as does msda_tuning_import() of the library.
Without --workload and --levels it tunes the workloads of group main.)",
    "",
    R"(Examples:
  msda tune --workload enc-local --dtype bf16 --wisdom tuning.txt
  msda bench --workload enc-local --dtype bf16 --wisdom tuning.txt
  msda tune --workload all --device 0 --budget-ms 2000 --wisdom tuning.txt --csv tuning.csv
  msda tune --levels 64x64,32x32 --queries 1000 --heads 4 --pattern local --threads 1)",
    run_tune};

}  // namespace msda::command
