#include "cli/options.h"

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/report_text.h"
#include "lab/input_error.h"
#include "lab/text_values.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <utility>

namespace msda::cli {

using namespace lab;
namespace {

using Setter = std::function<void(Options&, std::string const&)>;

struct OptionRow {
  std::vector<std::string> names;  // without dashes; the first is the one messages use
  const char* environment;         // or null
  unsigned commands;
  const char* group;
  const char* value;  // how help shows the value; null: a switch
  const char* help;
  Setter set;
};

// A setter that stores what `parse` makes of the text.
template <typename Member, typename Parse>
Setter store(Member Options::* member, Parse parse) {
  return
      [member, parse](Options& options, std::string const& text) { options.*member = parse(text); };
}

auto whole(std::int64_t least) {
  return [least](std::string const& text) { return parse_integer(text, least); };
}

auto whole32(std::int32_t least, std::int32_t most) {
  return [least, most](std::string const& text) {
    return static_cast<std::int32_t>(parse_integer(text, least, most));
  };
}

// The library has its own limits, and says so.
constexpr std::int32_t kAnyInt32 = std::numeric_limits<std::int32_t>::max();

std::int64_t flush_size(std::string const& text) {
  constexpr std::int64_t kMaxMebibytes = std::int64_t{1} << 20;
  return parse_integer(text, 0, kMaxMebibytes);
}

std::string as_it_is(std::string const& text) { return text; }

std::string parse_pattern(std::string const& text) {
  if (text != "uniform" && text != "local") bad_input("must be uniform or local");
  return text;
}

bool parse_math(std::string const& text) {
  if (text != "accurate" && text != "fast") bad_input("must be accurate or fast");
  return text == "fast";
}

CheckMode parse_check_mode(std::string const& text) {
  if (text == "none") return CheckMode::kNone;
  if (text == "sample") return CheckMode::kSample;
  if (text == "all") return CheckMode::kAll;
  bad_input("must be sample, all or none");
}

std::int32_t parse_device(std::string const& text) {
  if (text == "cpu") return MSDA_DEVICE_CPU;
  return whole32(0, kAnyInt32)(text);
}

std::int32_t parse_fused(std::string const& text) {
  if (text != "2" && text != "4") bad_input("must be 2 (points) or 4 (boxes)");
  return static_cast<std::int32_t>(text[0] - '0');
}

constexpr unsigned kProblem = kRun | kExplain | kBench | kTune;
constexpr unsigned kWorkloads = kBench | kTune;  // those that make their own data
constexpr const char* kInputGroup = "Input";
constexpr const char* kSizeGroup = "Sizes";
constexpr const char* kTypeGroup = "Types (f64 f32 f16 bf16 f8_e4m3)";
constexpr const char* kComputeGroup = "Computation";
constexpr const char* kMeasureGroup = "Measuring and checking";
constexpr const char* kOutputGroup = "Output";

std::vector<OptionRow> input_rows() {
  return {
      {{"dir"},
       nullptr,
       kRun,
       kInputGroup,
       "FOLDER",
       "folder of raw little-endian files: value.bin, spatial_shapes.bin and\n"
       "level_start_index.bin (int64), sampling_locations.bin,\n"
       "attention_weights.bin, and grad_output.bin for --backward",
       store(&Options::dir, as_it_is)},
      {{"npz"},
       nullptr,
       kRun | kExplain,
       kInputGroup,
       "FILE",
       "NumPy archive, the same as naming it without a flag",
       store(&Options::npz, as_it_is)},
      {{"workload", "workloads"},
       nullptr,
       kExplain | kWorkloads,
       kInputGroup,
       "NAME,..",
       "workloads of the list, or main, or all; see `msda bench --list`",
       store(&Options::workloads, parse_names)},
      {{"list"},
       nullptr,
       kBench,
       kInputGroup,
       nullptr,
       "list the workloads and stop",
       store(&Options::list, parse_bool)},
      {{"pattern"},
       nullptr,
       kWorkloads,
       kInputGroup,
       "NAME",
       "where the points of a problem given by flags land: uniform or local\n"
       "(around each query's own place); default uniform",
       store(&Options::pattern, parse_pattern)},
      {{"seed"},
       nullptr,
       kWorkloads,
       kInputGroup,
       "N",
       "of the random data; default 20260",
       store(&Options::seed, whole(0))},
  };
}

std::vector<OptionRow> size_rows() {
  return {
      {{"batch", "batch-size"},
       "BATCH_SIZE",
       kProblem,
       kSizeGroup,
       "B",
       "batch items",
       store(&Options::batch, whole(0))},
      {{"queries", "num-query", "query-count"},
       "NUM_QUERY",
       kProblem,
       kSizeGroup,
       "Q",
       "queries",
       store(&Options::queries, whole(0))},
      {{"heads", "num-heads"},
       nullptr,
       kProblem,
       kSizeGroup,
       "M",
       "heads; --dir: default 1",
       store(&Options::heads, whole(0))},
      {{"channels", "head-dim"},
       "CHANNELS",
       kProblem,
       kSizeGroup,
       "D",
       "channels of one head; --dir: default 32",
       store(&Options::channels, whole(0))},
      {{"levels"},
       nullptr,
       kProblem,
       kSizeGroup,
       "HxW,..",
       "height and width of each level",
       store(&Options::levels, parse_levels)},
      {{"points", "num-points"},
       nullptr,
       kProblem,
       kSizeGroup,
       "P,..",
       "points of every level, or of each (3,6,3); --dir: default 8",
       store(&Options::points, parse_points)},
      {{"value-border"},
       nullptr,
       kProblem,
       kSizeGroup,
       "0|1",
       "1: each level is stored with a border of one zero pixel around it;\n"
       "seen from the sizes of an input where not given",
       store(&Options::value_border, whole32(0, 1))},
      {{"fused"},
       nullptr,
       kExplain | kWorkloads,
       kSizeGroup,
       "2|4",
       "fused input: reference points (2) or boxes (4), offsets, logits",
       store(&Options::fused, parse_fused)},
  };
}

std::vector<OptionRow> type_rows() {
  return {
      {{"dtype"},
       nullptr,
       kProblem,
       kTypeGroup,
       "TYPE",
       "of value; coordinates and weights become f32 (f64 with f64)",
       store(&Options::dtype, parse_type)},
      {{"value-dtype"},
       nullptr,
       kProblem,
       kTypeGroup,
       "TYPE",
       "of value",
       store(&Options::value_dtype, parse_type)},
      {{"coord-dtype"},
       nullptr,
       kProblem,
       kTypeGroup,
       "TYPE",
       "of sampling locations, references and offsets",
       store(&Options::coord_dtype, parse_wide_type)},
      {{"weight-dtype"},
       nullptr,
       kProblem,
       kTypeGroup,
       "TYPE",
       "of attention weights and logits",
       store(&Options::weight_dtype, parse_wide_type)},
      {{"output-dtype"},
       nullptr,
       kProblem,
       kTypeGroup,
       "TYPE",
       "of output and grad_output; default that of value (f8_e4m3: f32)",
       store(&Options::output_dtype, parse_wide_type)},
      {{"grad-value-dtype"},
       nullptr,
       kProblem,
       kTypeGroup,
       "TYPE",
       "of grad_value; default that of value (f8_e4m3: f32)",
       store(&Options::grad_value_dtype, parse_wide_type)},
      {{"stored-value-dtype"},
       nullptr,
       kRun,
       kTypeGroup,
       "TYPE",
       "what a file that does not say its type holds (.bin, uint16, uint8);\n"
       "default --value-dtype, or else f16 for .bin",
       store(&Options::stored_value_dtype, parse_type)},
      {{"stored-coord-dtype"},
       nullptr,
       kRun,
       kTypeGroup,
       "TYPE",
       "the same; default --coord-dtype, or else f32 or f16 by the file's size",
       store(&Options::stored_coord_dtype, parse_wide_type)},
      {{"stored-weight-dtype"},
       nullptr,
       kRun,
       kTypeGroup,
       "TYPE",
       "the same; default --weight-dtype, or else f32 or f16 by the file's size",
       store(&Options::stored_weight_dtype, parse_wide_type)},
  };
}

std::vector<OptionRow> compute_rows() {
  return {
      {{"backward"},
       nullptr,
       kProblem,
       kComputeGroup,
       nullptr,
       "gradients of the inputs, from grad_output",
       store(&Options::backward, parse_bool)},
      {{"gradients"},
       nullptr,
       kRun,
       kComputeGroup,
       "NAME,..",
       "compute only these, such as grad_value,grad_weight; default all",
       store(&Options::gradients, parse_names)},
      {{"math"},
       nullptr,
       kProblem,
       kComputeGroup,
       "MODE",
       "accurate, or fast: kernels may sum in 16 bits; default accurate",
       store(&Options::fast_math, parse_math)},
      {{"kernel"},
       nullptr,
       kRun,
       kComputeGroup,
       "ID",
       "use this kernel, see `msda info --kernels`; default the fastest\npredicted",
       store(&Options::kernel, as_it_is)},
      {{"kernels"},
       nullptr,
       kBench,
       kComputeGroup,
       "ID,..",
       "measure these, or all that take the problem; default best",
       store(&Options::kernels, parse_names)},
      {{"wisdom"},
       nullptr,
       kRun | kBench,
       kComputeGroup,
       "FILE",
       "take the kernel that `msda tune` found the fastest and wrote there, if\n"
       "it has the problem and nothing else names a kernel",
       store(&Options::wisdom, as_it_is)},
      {{"threads"},
       nullptr,
       kProblem,
       kComputeGroup,
       "N",
       "threads on the CPU; default 0, all",
       store(&Options::threads, whole32(0, kAnyInt32))},
      {{"device"},
       nullptr,
       kProblem,
       kComputeGroup,
       "NAME",
       "cpu, or the number of a GPU; default cpu",
       store(&Options::device, parse_device)},
  };
}

std::vector<OptionRow> measure_rows() {
  return {
      {{"iterations", "num-iterations"},
       "NUM_ITERATIONS",
       kRun | kWorkloads,
       kMeasureGroup,
       "N",
       "timed runs; default 11",
       store(&Options::iterations, whole(1))},
      {{"warmup"},
       nullptr,
       kRun | kWorkloads,
       kMeasureGroup,
       "N",
       "runs before them; default 2",
       store(&Options::warmup, whole(0))},
      {{"seconds"},
       nullptr,
       kWorkloads,
       kMeasureGroup,
       "S",
       "a kernel that takes longer stops early, after 3 runs or more;\n"
       "default 10, 0: no limit",
       store(&Options::seconds, parse_seconds)},
      {{"budget-ms"},
       nullptr,
       kTune,
       kMeasureGroup,
       "MS",
       "milliseconds to spend on the choice for one workload; default 500",
       store(&Options::budget_ms, parse_budget)},
      {{"flush-mib"},
       nullptr,
       kWorkloads,
       kMeasureGroup,
       "N",
       "memory written between runs, to empty the caches; 0: none. Default\n"
       "for bench twice the last-level cache but 64 to 256, for tune 0",
       store(&Options::flush_mib, flush_size)},
      {{"check"},
       nullptr,
       kRun,
       kMeasureGroup,
       nullptr,
       "compare with the float64 reference; exit code 1 if an element is\n"
       "further from it than the documented bound",
       store(&Options::check, parse_bool)},
      {{"check"},
       nullptr,
       kBench,
       kMeasureGroup,
       "MODE",
       "what is compared before it is timed: a sample of the queries (the\n"
       "default), all elements, or none",
       store(&Options::check_mode, parse_check_mode)},
      {{"check-queries"},
       nullptr,
       kRun | kBench,
       kMeasureGroup,
       "N",
       "the sample: this many random queries of two batch items; 0: every\n"
       "one; default 0 for run, 64 for bench",
       store(&Options::check_queries, whole(0))},
  };
}

std::vector<OptionRow> output_rows() {
  return {
      {{"output"},
       nullptr,
       kRun,
       kOutputGroup,
       "FILE",
       "write the results: .npz, or one array as .npy or raw .bin",
       store(&Options::output, as_it_is)},
      {{"save-inputs"},
       nullptr,
       kBench,
       kOutputGroup,
       "FILE",
       "write the tensors of one workload as .npz and stop",
       store(&Options::save_inputs, as_it_is)},
      {{"wisdom"},
       nullptr,
       kTune,
       kOutputGroup,
       "FILE",
       "add what was found out to the records in this file, or make it",
       store(&Options::wisdom, as_it_is)},
      {{"kernels"},
       nullptr,
       kInfo,
       kOutputGroup,
       nullptr,
       "list every kernel, not only the families",
       store(&Options::list_kernels, parse_bool)},
      {{"json"},
       nullptr,
       kInfo,
       kOutputGroup,
       nullptr,
       "print JSON",
       store(&Options::json_to_stdout, parse_bool)},
      {{"json"},
       nullptr,
       kWorkloads,
       kOutputGroup,
       "FILE",
       "write the results as JSON",
       store(&Options::json, as_it_is)},
      {{"csv"},
       nullptr,
       kWorkloads,
       kOutputGroup,
       "FILE",
       "write the results as CSV; those of bench in the baselines' format",
       store(&Options::csv, as_it_is)},
      {{"plot"},
       nullptr,
       kBench,
       kOutputGroup,
       "FILE.svg",
       "draw the times",
       store(&Options::plot, as_it_is)},
  };
}

std::vector<OptionRow> const& options_table() {
  static const std::vector<OptionRow> kTable = [] {
    std::vector<OptionRow> table;
    for (auto const& rows :
         {input_rows(), size_rows(), type_rows(), compute_rows(), measure_rows(), output_rows()}) {
      table.insert(table.end(), rows.begin(), rows.end());
    }
    return table;
  }();
  return kTable;
}

// The row of a command that goes by this name; '_' is as good as '-'.
OptionRow const* find_row(Command const& command, std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  for (OptionRow const& row : options_table()) {
    bool const is_named = std::find(row.names.begin(), row.names.end(), name) != row.names.end();
    if ((row.commands & command.bit) != 0 && is_named) return &row;
  }
  return nullptr;
}

std::string suggest_name(Command const& command, std::string name, const char* prefix) {
  std::replace(name.begin(), name.end(), '_', '-');
  std::vector<std::string> candidates;
  for (OptionRow const& row : options_table()) {
    if ((row.commands & command.bit) == 0) continue;
    for (std::string const& candidate : row.names) candidates.push_back(candidate);
  }
  std::string const best = nearest(name, candidates);
  if (best.empty()) return fmt::format("; `msda {} --help` lists what there is", command.name);
  return fmt::format("; did you mean '{}{}'?", prefix, best);
}

// The words of the command line, sorted by what they are. Flags win over key=value words, which win
// over the environment: words that lost are dropped here, CLI11 reads the environment for the rest.
struct Words {
  std::map<OptionRow const*, std::pair<std::string, std::string>> given;  // label and value
  std::optional<std::string> input;
  bool wants_help = false;
};

void add_flag(Command const& command, std::vector<std::string> const& words, std::size_t& at,
              Words& out) {
  std::string const& word = words[at];
  std::size_t const equals = word.find('=');
  std::string const name = word.substr(0, equals);
  if (name == "--help" || name == "-h") {
    out.wants_help = true;
    return;
  }
  OptionRow const* const row = name.starts_with("--") ? find_row(command, name.substr(2)) : nullptr;
  if (row == nullptr) {
    bad_input("unknown option '{}'{}", name,
              suggest_name(command, name.substr(name.find_first_not_of('-')), "--"));
  }
  std::string value = "true";
  if (equals != std::string::npos) {
    value = word.substr(equals + 1);
  } else if (row->value != nullptr) {
    if (at + 1 == words.size()) bad_input("{} needs a value ({})", name, row->value);
    value = words[++at];
  }
  if (value.empty()) bad_input("{} needs a value", name);
  out.given[row] = {name, value};
}

void add_key_value(Command const& command, std::string const& word, Words& out) {
  std::size_t const equals = word.find('=');
  std::string const key = word.substr(0, equals);
  OptionRow const* const row = find_row(command, key);
  if (row == nullptr) bad_input("unknown key '{}'{}", key, suggest_name(command, key, ""));
  if (equals + 1 == word.size()) bad_input("{}= needs a value", key);
  out.given[row] = {key + "=", word.substr(equals + 1)};
}

Words sort_words(Command const& command, std::vector<std::string> const& words) {
  Words key_values;
  Words out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].size() > 1 && words[i][0] == '-') {
      add_flag(command, words, i, out);
    } else if (words[i].find('=') != std::string::npos) {
      add_key_value(command, words[i], key_values);
    } else if (out.input || command.input_help.empty()) {
      bad_input("unexpected argument '{}'", words[i]);
    } else {
      out.input = words[i];
    }
  }
  out.given.merge(key_values.given);  // keeps what is there
  return out;
}

void add_option(CLI::App& app, OptionRow const& row, Words const& words, Options& options) {
  std::string flags;
  for (std::string const& name : row.names) flags += (flags.empty() ? "--" : ",--") + name;
  auto const given = words.given.find(&row);
  std::string const label = given != words.given.end()   ? given->second.first
                            : row.environment != nullptr ? row.environment
                                                         : "";
  auto const set = [&row, &options, label](CLI::results_t const& results) {
    try {
      row.set(options, results.back());
    } catch (InputError const& error) {
      bad_input("{} is '{}': {}", label, results.back(), error.what());
    }
    options.labels.emplace_back(row.names.front(), label);
    return true;
  };
  CLI::Option* const option = app.add_option(flags, set, row.help);
  option->group(row.group)->type_name(row.value == nullptr ? "" : row.value);
  if (row.environment != nullptr) option->envname(row.environment);
}

// CLI11's help with one empty line between groups and the key=value words in the usage.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() {
    column_width(34);
    label("Positionals", "Arguments");
  }
  std::string make_usage(CLI::App const* app, std::string name) const override {
    std::string const input = app->get_option_no_throw("INPUT") != nullptr ? " [INPUT]" : "";
    return fmt::format("\nUsage: {} [OPTIONS]{} [KEY=VALUE..]\n", name, input);
  }
  std::string make_help(CLI::App const* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, name, mode);
    for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
    return text;
  }
};

Command const& find_command(std::string const& name) {
  std::vector<std::string> names;
  for (Command const& command : commands()) {
    if (command.name == name) return command;
    names.emplace_back(command.name);
  }
  bad_input("unknown command '{}'{}", name, suggestion(name, names));
}

int run_command(Command const& command, std::vector<std::string> const& words) {
  Options options;
  Words const sorted = sort_words(command, words);
  CLI::App app{std::string(command.description), fmt::format("msda {}", command.name)};
  app.formatter(std::make_shared<HelpFormatter>());
  app.footer(std::string(command.examples));
  if (!command.input_help.empty()) {
    app.add_option("INPUT", options.input, std::string(command.input_help))->type_name("");
  }
  for (OptionRow const& row : options_table()) {
    if ((row.commands & command.bit) != 0) add_option(app, row, sorted, options);
  }
  app.set_help_flag("-h,--help", "show this help")->group(kOutputGroup);
  std::vector<std::string> arguments;  // CLI11 takes them last one first
  if (sorted.input) arguments.push_back(*sorted.input);
  for (auto const& [row, given] : sorted.given) {
    arguments.push_back(fmt::format("--{}={}", row->names.front(), given.second));
  }
  if (sorted.wants_help) arguments.push_back("--help");
  try {
    app.parse(arguments);
  } catch (CLI::Success const& success) {
    return app.exit(success);
  } catch (CLI::ParseError const& error) {
    throw InputError(error.what());
  }
  return command.run(options);
}

constexpr std::string_view kSummary = "multi-scale deformable attention from the command line";
constexpr std::string_view kNotes =
    "Every option --some-name VALUE may also be written some_name=VALUE. Flags win over these\n"
    "words, which win over the environment (BATCH_SIZE, NUM_QUERY, CHANNELS, NUM_ITERATIONS).\n"
    "Exit codes: 0 done, 1 a check failed, 2 bad input, 3 the library failed.";
constexpr std::string_view kExamples =
    "Examples:\n"
    "  msda info\n"
    "  msda run tensors.npz --check --output result.npz\n"
    "  msda bench --workload rtdetr,dec --threads 1";

std::string general_help() {
  std::string text = fmt::format(
      "msda - {}\n\nUsage: msda COMMAND [OPTIONS] [KEY=VALUE..]\n\nCommands:\n", kSummary);
  for (Command const& command : commands()) {
    text += fmt::format("  {:<9}{}\n", command.name, command.summary);
  }
  text += fmt::format(
      "\nOptions:\n"
      "  -h, --help   this help; `msda COMMAND --help` for that of a command\n"
      "  --version    the version of the library\n"
      "\n{}\n\n{}\n",
      kNotes, kExamples);
  return text;
}

// The same and the options of every command, for tools/cli_docs.
std::string help_json() {
  nlohmann::ordered_json json = {{"version", version_text()},
                                 {"summary", kSummary},
                                 {"notes", kNotes},
                                 {"examples", kExamples},
                                 {"commands", nlohmann::ordered_json::array()}};
  for (Command const& command : commands()) {
    auto options = nlohmann::ordered_json::array();
    for (OptionRow const& row : options_table()) {
      if ((row.commands & command.bit) == 0) continue;
      nlohmann::ordered_json option = {{"names", row.names}, {"group", row.group}};
      option["value"] = row.value == nullptr ? nullptr : nlohmann::ordered_json(row.value);
      option["help"] = row.help;
      options.push_back(option);
    }
    json["commands"].push_back({{"name", command.name},
                                {"summary", command.summary},
                                {"description", command.description},
                                {"input", command.input_help},
                                {"options", options},
                                {"examples", command.examples}});
  }
  return json.dump(2) + "\n";
}

}  // namespace

std::string Options::label(std::string_view name) const {
  for (auto const& [option, label] : labels) {
    if (option == name) return label;
  }
  return fmt::format("--{}", name);
}

int dispatch(std::vector<std::string> const& words, std::string& command_name) {
  if (words.empty()) bad_input("no command; `msda --help` lists them");
  std::string const& first = words.front();
  if (first == "--help" || first == "-h" || first == "help") {
    bool const wants_json = words.size() == 2 && words[1] == "--json";
    fmt::print("{}", wants_json ? help_json() : general_help());
    return kExitOk;
  }
  if (first == "--version") {
    fmt::print("msda {}\n", version_text());
    return kExitOk;
  }
  if (first.starts_with("-")) bad_input("unknown option '{}'; `msda --help` lists them", first);
  Command const& command = find_command(first);
  command_name = first;
  return run_command(command, {words.begin() + 1, words.end()});
}

}  // namespace msda::cli
