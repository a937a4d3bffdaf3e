// msda roofline: what kernels ask of a GPU, and the least time in which it can do that.
#include "command/commands/case_input.h"
#include "command/commands/choices.h"
#include "command/commands/options.h"
#include "command/commands/result_files.h"
#include "command/files/array_files.h"
#include "command/files/input_error.h"
#include "command/files/text_values.h"
#include "command/measure/machine.h"
#include "command/measure/plan_runner.h"
#include "command/report/roofline_report.h"
#include "core/status.h"
#include "plan/selector.h"
#include "registry.h"

#include "api/objects.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

namespace msda::command {

namespace {

struct NamedCase {
  std::string name;  // the workload, or the file
  ProblemShape spec;
  std::function<Case()> make;  // its tensors
};

std::vector<NamedCase> chosen_cases(Options const& options) {
  if (has_file(options)) {
    auto const input = std::make_shared<Case>(load_case(options));
    return {{options.input.value_or(options.npz.value_or("")), input->spec,
             [input] { return std::move(*input); }}};
  }
  auto const seed = static_cast<std::uint64_t>(options.seed);
  std::vector<NamedCase> cases;
  for (Workload const& workload : chosen_workloads(options)) {
    ProblemShape const spec = workload_spec(workload, options);
    cases.push_back({workload.name, spec,
                     [workload, spec, seed] { return random_case(workload, spec, seed); }});
  }
  return cases;
}

// The GPU that the rates are of, as far as families ask.
Device device_of(GpuRates const& rates) {
  Device device;
  device.ordinal = 0;
  device.sm = rates.sm;
  device.sm_count = rates.sm_count;
  device.shared_bytes_per_block = rates.shared_bytes_per_block;
  device.has_async_copy = rates.sm >= 80;
  device.has_bulk_copy = rates.sm >= 90;
  return device;
}

Problem problem_of(ProblemShape const& spec) {
  ProblemCopy const view = spec.copy();
  try {
    return api::canonical_problem(&view.c, std::pmr::new_delete_resource());
  } catch (StatusError const& error) {
    bad_input("{}", error.what());
  }
}

// ---- kernels

// The kernels of families that count what they ask of a GPU.
std::vector<KernelRef> counted_kernels() {
  std::vector<KernelRef> kernels;
  for (Family const& family : families()) {
    if (family.model.counts == nullptr) continue;
    for (Variant const& variant : family.model.variants) kernels.push_back({&family, &variant});
  }
  return kernels;
}

// Nulls where the kernel is there and does not count.
KernelRef kernel_named(std::string const& id) {
  std::vector<std::string> ids;
  for (KernelRef const& kernel : counted_kernels()) {
    if (id == kernel.variant->id) return kernel;
    ids.emplace_back(kernel.variant->id);
  }
  for (msda_kernel_info const& info : Engine(MSDA_DEVICE_CPU, 1).handle.kernels()) {
    if (id == info.kernel_id) return {};
    ids.emplace_back(info.kernel_id);
  }
  bad_input("--kernels names an unknown kernel '{}'; `msda info --kernels` lists them{}", id,
            suggestion(id, ids));
}

std::vector<std::string> chosen_kernels(Problem const& problem, Device const& device,
                                        Options const& options) {
  bool const all = options.kernels == std::vector<std::string>{"all"};
  bool const best = options.kernels.empty() || options.kernels == std::vector<std::string>{"best"};
  if (!all && !best) return options.kernels;
  std::vector<std::string> ids;
  for (Ranked const& entry : rank_kernels(problem, device, 0, counted_kernels())) {
    if (entry.rejected != Reason::kNone || (best && !entry.may_be_chosen)) break;
    ids.emplace_back(entry.kernel.variant->id);
    if (best) break;
  }
  return ids;
}

RooflineRow count(NamedCase const& input, Problem const& problem, std::string const& id,
                  GpuRates const& rates) {
  RooflineRow row{input.name, input.spec, id, std::nullopt, {}, std::nullopt};
  KernelRef const kernel = kernel_named(id);
  if (kernel.family == nullptr) return row;
  FamilyModel const& model = kernel.family->model;
  Device const device = device_of(rates);
  Reason const reason = model.reject(*kernel.variant, problem, device);
  if (reason != Reason::kNone) {
    bad_input("{}: {} {} ({})", input.name, id, reason_text(reason), rates.gpu);
  }
  row.counts = model.counts(*kernel.variant, problem, device);
  if (row.counts) row.bounds = bounds_of(*row.counts, rates);
  return row;
}

// ---- rates and times

bool is_h200(std::string const& gpu) { return gpu.find("H200") != std::string::npos; }

void choose_rates(Options const& options, RooflineReport& report) {
  if (options.calibrate) {
    report.rates = measure_rates(options.device);
    report.rates_source = "measured now";
    return;
  }
  if (options.rates) {
    report.rates = read_rates(*options.rates, read_text(*options.rates));
    report.rates_source = *options.rates;
    return;
  }
  report.rates = h200_rates();
  report.rates_source = "bench/rates/h200.json";
  if (options.device == MSDA_DEVICE_CPU) return;
  std::string const gpu = gpu_of(options.device).name;
  if (!is_h200(gpu)) {
    bad_input("no rates of {} are stored: give --calibrate or --rates", gpu);
  }
}

MeasuredTime measure(Engine const& engine, Case const& input, std::string const& id,
                     Options const& options) {
  Runner runner(engine, input.spec, id);
  auto results = make_results(input.spec, {});
  runner.bind(input, results);
  Timing const timing = time_runs(runner, timing_options(options, bench_flush_bytes(options)));
  return {timing.median(), timing.quantile(0.25), timing.quantile(0.75)};
}

// Adds the times of all rows, with counts or without: from a file, measured on the GPU, or those
// stored for an H200.
void add_times(Options const& options, std::vector<NamedCase> const& cases,
               std::optional<Engine> const& engine, RooflineReport& report) {
  if (!options.times && engine) {
    report.times_source = "measured now, caches flushed";
    for (NamedCase const& input : cases) {
      Case const tensors = input.make();
      for (RooflineRow& row : report.rows) {
        if (row.workload == input.name)
          row.measured = measure(*engine, tensors, row.kernel_id, options);
      }
    }
    return;
  }
  report.times_source = "none";
  std::optional<CsvTable> times;
  if (options.times) {
    report.times_source = *options.times;
    times = read_times(*options.times, read_text(*options.times));
  } else if (is_h200(report.rates.gpu)) {
    report.times_source = "bench/baselines/h200.csv";
    times = read_times(report.times_source, h200_times_csv());
  }
  if (!times) return;
  for (RooflineRow& row : report.rows) {
    row.measured = find_time(*times, row.workload, row.spec, row.kernel_id);
  }
}

void compare_ncu(Options const& options, RooflineReport& report) {
  if (!options.ncu) return;
  if (report.rows.size() != 1 || !report.rows[0].counts) {
    bad_input(
        "{} is of one kernel on one problem: {} rows with counts were chosen", options.label("ncu"),
        std::ranges::count_if(report.rows, [](auto const& row) { return row.counts.has_value(); }));
  }
  report.ncu =
      compare_with_ncu(*options.ncu, read_text(*options.ncu), *report.rows[0].counts, report.rates);
}

void check_words(Options const& options) {
  bool const has_device = options.device != MSDA_DEVICE_CPU;
  auto const not_both = [&options](bool both, const char* one, const char* other) {
    if (both) bad_input("give {} or {}, not both", options.label(one), options.label(other));
  };
  not_both(options.gpu && has_device, "gpu", "device");
  not_both(options.gpu && options.rates, "gpu", "rates");
  not_both(options.calibrate && options.rates, "calibrate", "rates");
  if (options.calibrate && !has_device) {
    bad_input("{} needs --device", options.label("calibrate"));
  }
}

int run_roofline(Options const& options) {
  check_words(options);
  ResultFiles files(options);
  std::optional<Engine> engine;  // without one nothing is measured
  if (options.device != MSDA_DEVICE_CPU) engine.emplace(options.device, options.threads);
  RooflineReport report;
  choose_rates(options, report);
  std::vector<NamedCase> const cases = chosen_cases(options);
  for (NamedCase const& input : cases) {
    Problem const problem = problem_of(input.spec);
    for (std::string const& id : chosen_kernels(problem, device_of(report.rates), options)) {
      report.rows.push_back(count(input, problem, id, report.rates));
    }
  }
  compare_ncu(options, report);
  add_times(options, cases, engine, report);
  if (options.calibrate) {
    files.add_text("calibrate", rates_json(report.rates, "msda roofline --calibrate"));
  }
  if (options.json) files.add_text("json", roofline_json(report));
  if (options.plot) files.add_plot("plot", roofline_plot(report));
  files.finish(roofline_table(report) + options.environment_line());
  return kExitOk;
}

}  // namespace

const Command kRooflineCommand = {
    "roofline",
    kRoofline,
    "what kernels ask of a GPU, and which of its limits binds",
    R"(Counts what a forward of each kernel asks of a GPU: bytes, L1 wavefronts, instructions. From
the GPU's rates it has the least time that each resource needs for that; the largest binds.
Beside it is the measured time. Without a GPU the rates and times are those of an H200 that
the library was measured on. Only GPU kernels are modelled, and of these no backward.
Without a file, --workload or --levels it takes the workloads of group main.)",
    ".npz file with the problem's tensors",
    R"(Examples:
  msda roofline --dtype f16
  msda roofline --workload enc-local --dtype f16 --kernels all --plot roofline.png
  msda roofline --workload bev-local --dtype f16 --math fast --ncu counters.csv
  msda roofline --levels 80x80,40x40,20x20 --queries 300 --json roofline.json
  msda roofline --device 0 --calibrate gpu.json --workload dec
  msda roofline --device 0 --rates gpu.json --workload dec)",
    run_roofline};

}  // namespace msda::command
