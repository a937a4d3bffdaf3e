// msda run: one problem from files, timed, checked and written.
#include "command/check/accuracy_check.h"
#include "command/commands/case_input.h"
#include "command/commands/choices.h"
#include "command/commands/options.h"
#include "command/commands/result_files.h"
#include "command/commands/wisdom.h"
#include "command/files/array_files.h"
#include "command/files/input_error.h"
#include "command/measure/plan_runner.h"
#include "command/report/report_parts.h"
#include "core/join.h"

#include <fmt/core.h>

#include <algorithm>

namespace msda::command {

namespace {

constexpr std::uint64_t kSampleSeed = 20260;

// The names of the results to compute, checked against those that the problem has.
std::vector<std::string> result_names(ProblemShape const& spec, Options const& options) {
  std::vector<std::string> all;
  for (TensorRow const& row : tensor_rows()) {
    if (row.is_result() && row.belongs_to(spec)) all.emplace_back(row.name);
  }
  if (options.attention) {
    if (spec.backward() || !spec.fused()) {
      bad_input("{} is given and the problem is {}: must be forward and fused, with logit",
                options.label("attention"), spec.backward() ? "backward" : "sampled");
    }
    all.emplace_back(tensor_row(TensorId::kAttention).name);
  }
  if (options.gradients.empty()) return all;
  if (!spec.backward()) bad_input("--gradients needs --backward");
  for (std::string const& name : options.gradients) {
    if (std::find(all.begin(), all.end(), name) == all.end()) {
      bad_input("{} names '{}': must be of {}", options.label("gradients"), name, join(all, ", "));
    }
  }
  return options.gradients;
}

// A file of one array cannot hold several.
void check_count(Options const& options, std::vector<std::string> const& names) {
  if (options.output && names.size() > 1 && array_format(*options.output, names.size()) != ".npz") {
    bad_input("{} is '{}': this kind of file holds one array, not {}; use .npz{}",
              options.label("output"), *options.output, join(names, ", "),
              options.backward ? ", or --gradients" : "");
  }
}

struct Measurement {
  msda_plan_info info;
  Timing timing;
};

// The plan and its workspace are gone afterwards: a check needs memory, too.
Measurement measure(Case const& input, Engine const& engine, Options const& options,
                    std::vector<NamedArray>& results) {
  Runner runner(engine, input.spec, options.kernel);
  runner.bind(input, results);
  return {runner.info(),
          time_runs(runner, {.warmup = options.warmup, .iterations = options.iterations})};
}

std::string measurement_text(ProblemShape const& spec, Measurement const& measurement,
                             Options const& options) {
  auto const& [info, timing] = measurement;
  Work const work = work_of(spec);
  double const seconds = timing.median() * 1e-6;
  return fmt::format(
      "problem  {}\n{}types    {}\n"
      "kernel   {}, predicted {}, workspace {}\n"
      "time     median {}  min {}  max {}  ({} runs after {} to warm up)\n"
      "work     {} points  {} gathered  {} of tensors  ({}points/s, {}/s gathered)\n",
      sizes_text(spec), options.environment_line(), types_text(spec), info.kernel_id,
      rough_time_text(info.predicted_us), bytes_text(static_cast<double>(info.workspace_bytes)),
      time_text(timing.median()), time_text(timing.min()), time_text(timing.max()),
      timing.microseconds.size(), options.warmup, count_text(work.points),
      bytes_text(work.gathered_bytes), bytes_text(work.tensor_bytes),
      count_text(work.points / seconds), bytes_text(work.gathered_bytes / seconds));
}

// The results of the timed runs, or of the chosen queries alone. All attention weights are checked:
// a softmax takes less time than the reference.
Accuracy check(Case const& input, std::vector<NamedArray> const& results, Engine const& engine,
               std::string const& kernel_id, Options const& options) {
  Accuracy accuracy;
  if (options.check_queries.value_or(0) == 0) {
    Engine const cpu(MSDA_DEVICE_CPU, options.threads);
    accuracy = compare_parts(input, cpu, results);
  } else {
    CheckOptions const how = {CheckMode::kSample, *options.check_queries, kSampleSeed,
                              options.threads};
    accuracy = AccuracyCheck(input, engine, how).check(results, kernel_id);
  }
  if (options.attention) accuracy.merge(check_attention(input, results.back().second));
  return accuracy;
}

Json run_json(Case const& input, Measurement const& measurement, Options const& options) {
  Json result = {{"kernel_id", measurement.info.kernel_id},
                 {"problem", problem_json(input.spec)},
                 {"workspace_bytes", measurement.info.workspace_bytes},
                 {"predicted_us", measurement.info.predicted_us},
                 {"time_us", timing_json(measurement.timing)},
                 {"check", nullptr}};
  Json json = report_json(
      {{"device", options.device}, {"threads", used_threads(options)}, {"warmup", options.warmup}});
  json["results"].push_back(std::move(result));
  return json;
}

int run_run(Options const& options) {
  ResultFiles files(options);
  Case const input = load_case(options);
  ProblemShape const& spec = input.spec;
  std::vector<std::string> const names = result_names(spec, options);
  check_count(options, names);
  Engine const engine = make_engine(options);
  auto results = make_results(spec, names);
  Measurement const measurement = measure(input, engine, options, results);
  std::string const kernel_id = measurement.info.kernel_id;
  std::string report = measurement_text(spec, measurement, options);
  std::string remarks;
  for (std::string const& remark : input.remarks) remarks += remark + "\n";
  Json json = run_json(input, measurement, options);
  int exit_code = kExitOk;
  if (options.check || options.check_queries) {
    Accuracy const accuracy = check(input, results, engine, kernel_id, options);
    std::string const reference =
        options.attention ? "ref.cpu@1 and a float64 softmax" : "ref.cpu@1";
    report += fmt::format("check    {} elements against {}: {}\n", accuracy.value_count, reference,
                          accuracy_text(accuracy));
    json["results"][0]["check"] = {{"passed", accuracy.passed()},
                                   {"reference", reference},
                                   {"elements", accuracy.value_count},
                                   {"max_error", accuracy.max_error},
                                   {"max_share_of_bound", accuracy.max_bound_share}};
    if (!accuracy.passed()) {
      remarks += fmt::format("msda run: {}: {}\n", kernel_id, wrong_text(accuracy));
      exit_code = kExitCheckFailed;
    }
  }
  if (options.output) {
    std::vector<FileArray> arrays;
    for (auto const& [name, array] : results) arrays.push_back(file_array(name, array));
    files.add_arrays("output", arrays);
    report += fmt::format("output   {} ({})\n", *options.output, join(names, ", "));
  }
  files.add_text("json", json.dump(2) + "\n");
  files.finish(report);
  fmt::print(stderr, "{}", remarks);
  return exit_code;
}

}  // namespace

const Command kRunCommand = {
    "run",
    kRun,
    "compute one problem from files",
    "Runs one problem from an .npz file or a folder of raw .bin files, prints the kernel and its "
    R"(time,
and can check and write the result. Every size is checked against the files, and arrays are
converted to the types asked for (rounded to nearest even) before the run.
`msda bench --workload dec --save-inputs tensors.npz` writes a file to begin with.)",
    ".npz file, or folder of .bin files (as --dir)",
    R"(Examples:
  msda run tensors.npz --check
  msda run tensors.npz --value-dtype f16 --coord-dtype f32 --threads 1 --output out.npz
  msda run tensors.npz --backward --gradients grad_value --output grad_value.npy
  msda run fused.npz --attention --output out.npz
  msda run tensors.npz --wisdom tuning.txt
  msda run --dir data --batch 48 --queries 15422 --iterations 20
  BATCH_SIZE=48 NUM_QUERY=15422 msda run dir=data kernel=ref.cpu@1 check=1)",
    run_run};

}  // namespace msda::command
