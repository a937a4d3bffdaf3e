// msda explain: which kernels take a problem, in which order, and why the others do not.
#include "command/commands/case_input.h"
#include "command/commands/choices.h"
#include "command/commands/options.h"
#include "command/commands/result_files.h"
#include "command/measure/plan_runner.h"
#include "command/report/report_parts.h"

#include <cmath>
#include <sstream>
#include <string>
#include <string_view>

namespace msda::command {

namespace {

constexpr std::string_view kBefore = "  predicted ";
constexpr std::string_view kUnit = " us";

// The lines of msda_explain(), one a kernel, the best first. Says how much longer each kernel is
// predicted to take than the first, which a plan takes.
std::vector<std::string> with_shares(std::string const& ranks) {
  std::vector<std::string> lines;
  std::istringstream stream(ranks);
  double first = 0;
  for (std::string line; std::getline(stream, line);) {
    if (std::size_t const at = line.find(kBefore); at != std::string::npos) {
      double const time = std::stod(line.substr(at + kBefore.size()));
      if (first > 0) {
        line.insert(line.find(kUnit, at) + kUnit.size(),
                    fmt::format(", {:.0f} % {} the first", 100 * std::abs(time / first - 1),
                                time < first ? "below" : "above"));
      } else {
        first = time;
      }
    }
    lines.push_back(line);
  }
  return lines;
}

// Predictions are worth two digits.
std::string with_rough_time(std::string line) {
  if (std::size_t at = line.find(kBefore); at != std::string::npos) {
    at += kBefore.size();
    std::size_t const length = line.find(kUnit, at) - at;
    std::string const rough = rough_time_text(std::stod(line.substr(at, length)));
    line.replace(at, length + kUnit.size(), rough);
  }
  return line;
}

int run_explain(Options const& options) {
  std::vector<ProblemShape> specs;
  if (has_file(options)) {
    specs.push_back(load_case(options).spec);
  } else {
    for (Workload const& workload : chosen_workloads(options, nullptr)) {
      specs.push_back(workload_spec(workload, options));
    }
  }
  ResultFiles files(options);
  Engine const engine(options.device, options.threads);
  std::string report = options.environment_line();
  Json json = report_json({{"device", options.device}, {"threads", used_threads(options)}});
  for (std::size_t i = 0; i < specs.size(); ++i) {
    std::vector<std::string> const kernels = with_shares(engine.handle.explain(specs[i].copy().c));
    report += fmt::format("{}problem  {}\ntypes    {}\n", i == 0 ? "" : "\n", sizes_text(specs[i]),
                          types_text(specs[i]));
    for (std::string const& line : kernels) report += with_rough_time(line) + "\n";
    json["results"].push_back({{"problem", problem_json(specs[i])}, {"kernels", kernels}});
  }
  files.add_text("json", json.dump(2) + "\n");
  files.finish(report);
  return kExitOk;
}

}  // namespace

const Command kExplainCommand = {
    "explain",
    kExplain,
    "which kernels take a problem, and why the others do not",
    R"(Ranks the kernels for a problem by predicted time and gives the reason of each that does not
take it. The problem is that of a file, of a workload, or described by sizes.)",
    ".npz file with the problem's tensors",
    R"(Examples:
  msda explain --workload enc-local --dtype f16
  msda explain --levels 80x80,40x40,20x20 --queries 300 --backward
  msda explain tensors.npz --threads 1 --json -)",
    run_explain};

}  // namespace msda::command
