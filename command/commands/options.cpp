#include "command/commands/options.h"

#include "command/files/input_error.h"
#include "command/files/text_values.h"
#include "command/report/report_parts.h"
#include "core/join.h"
#include "core/numbers.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <ranges>
#include <span>
#include <tuple>
#include <utility>

namespace msda::command {

namespace {

// In the order in which help lists them.
std::span<const Command> commands() {
  static const std::array<Command, 6> kCommands = {kInfoCommand,     kRunCommand,   kExplainCommand,
                                                   kRooflineCommand, kBenchCommand, kTuneCommand};
  return kCommands;
}

struct OptionRow {
  // The value goes to `member`, as `parse` makes it of the text.
  template <typename Member, typename Parse = std::identity>
  OptionRow(const char* name_list, unsigned of_commands, const char* value_name,
            const char* help_text, Member Options::* member, Parse parse = {}, char short_form = 0)
      : names(parse_names(name_list)),
        commands(of_commands),
        value(value_name),
        help(help_text),
        set([member, parse](Options& options, std::string const& text) {
          options.*member = parse(text);
        }),
        letter(short_form) {}

  std::vector<std::string> names;  // without dashes; the first is the one messages use
  unsigned commands;
  const char* value;  // how help shows the value; null: a switch
  const char* help;
  std::function<void(Options&, std::string const&)> set;
  char letter;  // of the short form, such as -o; 0: none
  const char* group = nullptr;
};

// The variable of the environment that the old commands read for an option; null: none.
const char* environment_of(std::string_view option) {
  return option == "batch"        ? "BATCH_SIZE"
         : option == "queries"    ? "NUM_QUERY"
         : option == "channels"   ? "CHANNELS"
         : option == "iterations" ? "NUM_ITERATIONS"
                                  : nullptr;
}

auto whole(std::int64_t least, std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  return [=](std::string const& text) { return parse_integer(text, least, most); };
}

auto whole32(std::int32_t least, std::int32_t most) {
  return [least, most](std::string const& text) {
    return static_cast<std::int32_t>(parse_integer(text, least, most));
  };
}

auto decimal(const char* rule, double least) {
  return [=](std::string const& text) {
    double const value = parse_decimal(text).value_or(-1);
    if (!std::isfinite(value) || value < least) bad_input("must be {}", rule);
    return value;
  };
}

// The library has its own limits, and says so.
constexpr std::int32_t kAnyInt32 = std::numeric_limits<std::int32_t>::max();

constexpr std::int64_t kMaxFlushMebibytes = std::int64_t{1} << 20;

// The value of one of these words; `rule` says which there are.
template <typename T>
auto one_of(const char* rule, std::map<std::string, T> words) {
  return [rule, words = std::move(words)](std::string const& text) {
    auto const found = words.find(text);
    if (found == words.end()) bad_input("must be {}", rule);
    return found->second;
  };
}

// The word itself.
auto word_of(const char* rule, std::initializer_list<std::string_view> words) {
  std::map<std::string, std::string> same;
  for (std::string_view const word : words) same.emplace(word, word);
  return one_of(rule, std::move(same));
}

// Values of one run after the other.
template <typename Parse>
auto list_of(Parse parse) {
  return [parse](std::string const& text) {
    std::vector<decltype(parse(text))> values;
    for (std::string const& value : parse_names(text)) values.push_back(parse(value));
    return values;
  };
}

std::int32_t parse_device(std::string const& text) {
  if (text == "cpu") return MSDA_DEVICE_CPU;
  if (text.find_first_not_of("0123456789") != std::string::npos) {
    bad_input("must be cpu or the number of a GPU");
  }
  return whole32(0, kAnyInt32)(text);
}

constexpr unsigned kProblem = kRun | kExplain | kRoofline | kBench | kTune;
constexpr unsigned kExecuted =
    kRun | kExplain | kBench | kTune;                        // forward or backward, on a device
constexpr unsigned kWorkloads = kRoofline | kBench | kTune;  // those that make their own data
constexpr unsigned kAll = kInfo | kRun | kExplain | kWorkloads;
constexpr const char* kOutputGroup = "Output";

// The options, in groups as help shows them.
const std::pair<const char*, std::vector<OptionRow>> kGroups[] = {
    {"Input",
     {
         {"dir", kRun, "FOLDER",
          "folder of raw little-endian files: value.bin, spatial_shapes.bin and\n"
          "level_start_index.bin (int64; the latter may be left out),\n"
          "sampling_locations.bin, attention_weights.bin, and grad_output.bin\n"
          "for --backward",
          &Options::dir},
         {"npz", kRun | kExplain | kRoofline, "FILE",
          "NumPy archive, the same as naming it without a flag; - is standard\ninput",
          &Options::npz},
         {"workload,workloads", kExplain | kWorkloads, "NAME,..",
          "workloads of the list, or main, or all; see `msda bench --list`", &Options::workloads,
          parse_names},
         {"list", kBench, nullptr, "list the workloads and stop", &Options::list, parse_bool},
         {"pattern", kWorkloads, "NAME",
          "where the points of a problem given by flags land: uniform or local\n"
          "(around each query's own place); default uniform",
          &Options::pattern, word_of("uniform or local", {"uniform", "local"})},
         {"seed", kWorkloads, "N", "of the random data; default 20260", &Options::seed, whole(0)},
     }},
    {"Sizes",
     {
         {"batch,batch-size", kProblem, "B", "batch items", &Options::batch, whole(0)},
         {"queries,num-query,query-count", kProblem, "Q", "queries", &Options::queries, whole(0)},
         {"heads,num-heads", kProblem, "M", "heads; --dir: default 1", &Options::heads, whole(0)},
         {"channels,head-dim", kProblem, "D", "channels of one head; --dir: default 32",
          &Options::channels, whole(0)},
         {"levels", kProblem, "HxW,..", "height and width of each level", &Options::levels,
          parse_levels},
         {"points,num-points", kProblem, "P,..",
          "points of every level, or of each (3,6,3); --dir: default 8", &Options::points,
          parse_points},
         {"value-border", kProblem, "0|1",
          "1: each level is stored with a border of one zero pixel around it;\n"
          "seen from the sizes of an input where not given",
          &Options::value_border, whole32(0, 1)},
         {"level-start", kProblem, "S,..",
          "token at which each level starts, in any order, with gaps or not;\n"
          "default that of the input, else one level after another",
          &Options::level_start, parse_starts},
         {"tokens,token-count", kProblem, "S",
          "tokens of value; default those of the input, else where the last\nlevel ends",
          &Options::tokens, whole(0)},
         {"fused", kExplain | kWorkloads, "2|4",
          "fused input: reference points (2) or boxes (4), offsets, logits", &Options::fused,
          one_of<std::int32_t>("2 (points) or 4 (boxes)", {{"2", 2}, {"4", 4}})},
     }},
    {"Types (f64 f32 f16 bf16 f8_e4m3)",
     {
         {"dtype", kProblem & ~kBench, "TYPE",
          "of value; coordinates and weights become f32 (f64 with f64)", &Options::dtype,
          parse_type},
         {"dtype", kBench, "TYPE,..", "the same; several are timed one after the other",
          &Options::dtypes, list_of(parse_type)},
         {"value-dtype", kProblem, "TYPE", "of value", &Options::value_dtype, parse_type},
         {"coord-dtype", kProblem, "TYPE", "of sampling locations, references and offsets",
          &Options::coord_dtype, parse_wide_type},
         {"reference-dtype", kProblem, "TYPE", "of references; default --coord-dtype",
          &Options::reference_dtype, parse_wide_type},
         {"weight-dtype", kProblem, "TYPE", "of attention weights and logits",
          &Options::weight_dtype, parse_wide_type},
         {"output-dtype", kProblem, "TYPE",
          "of output and grad_output; default that of value (f8_e4m3: f32)", &Options::output_dtype,
          parse_wide_type},
         {"grad-value-dtype", kExecuted, "TYPE",
          "of grad_value; default that of value (f8_e4m3: f32)", &Options::grad_value_dtype,
          parse_wide_type},
         {"stored-value-dtype", kRun, "TYPE",
          "what a file that does not say its type holds (.bin, uint16, uint8);\n"
          "default --value-dtype, or else f16 for .bin",
          &Options::stored_value_dtype, parse_type},
         {"stored-coord-dtype", kRun, "TYPE",
          "the same; default --coord-dtype, or else f32 or f16 by the file's size",
          &Options::stored_coord_dtype, parse_wide_type},
         {"stored-weight-dtype", kRun, "TYPE",
          "the same; default --weight-dtype, or else f32 or f16 by the file's size",
          &Options::stored_weight_dtype, parse_wide_type},
     }},
    {"Computation",
     {
         {"backward", kExecuted, nullptr, "gradients of the inputs, from grad_output",
          &Options::backward, parse_bool},
         {"any-order", kExecuted, nullptr,
          "gradients may differ in their last bits from run to run, which more\nkernels can",
          &Options::any_order, parse_bool},
         {"gradients", kRun, "NAME,..",
          "compute only these, such as grad_value,grad_weight; default all", &Options::gradients,
          parse_names},
         {"attention", kRun, nullptr,
          "compute the attention weights, too: the softmax of logit, as `attention`",
          &Options::attention, parse_bool},
         {"math", kProblem, "MODE",
          "accurate, or fast: kernels may sum in 16 bits; default accurate", &Options::fast_math,
          one_of<bool>("accurate or fast", {{"accurate", false}, {"fast", true}})},
         {"sampling", kProblem, "MODE",
          "bilinear: four pixels a point; or nearest: one; default bilinear", &Options::sampling,
          parse_sampling},
         {"point-locality", kProblem, "WORD",
          "where points land, which the choice of a kernel takes into account:\n"
          "local, scattered, unknown (the default), or for a workload pattern:\n"
          "as its points do",
          &Options::point_locality,
          word_of("unknown, local, scattered or pattern",
                  {"unknown", "local", "scattered", kOfPattern})},
         {"kernel", kRun, "ID",
          "use this kernel, see `msda info --kernels`; default the fastest\npredicted",
          &Options::kernel},
         {"kernels", kBench | kRoofline, "ID,..",
          "these kernels, or all that take the problem; default best", &Options::kernels,
          parse_names},
         {"wisdom", kRun | kBench, "FILE",
          "take the kernel that `msda tune` found the fastest and wrote there, if\n"
          "it has the problem and nothing else names a kernel",
          &Options::wisdom},
         {"threads", kExecuted & ~kBench, "N", "threads on the CPU; default 0, all",
          &Options::threads, whole32(0, kAnyInt32)},
         {"threads", kBench, "N,..", "the same; several are timed one after the other",
          &Options::thread_counts, list_of(whole32(0, kAnyInt32))},
         {"device", kExecuted, "NAME", "cpu, or the number of a GPU; default cpu", &Options::device,
          parse_device},
         {"device", kRoofline, "N", "number of a GPU: its times are measured now", &Options::device,
          whole32(0, kAnyInt32)},
         {"gpu", kRoofline, "NAME",
          "without --device: whose stored rates are taken; h200, the default", &Options::gpu,
          word_of("h200", {"h200"})},
         {"rates", kRoofline, "FILE",
          "rates of another GPU, JSON as --calibrate writes it; times of other\nGPUs are not "
          "stored",
          &Options::rates},
         {"calibrate", kRoofline, "FILE",
          "measure the rates of --device N first, write them there and take them",
          &Options::calibrate},
     }},
    {"Measuring and checking",
     {
         {"iterations,num-iterations", kRun | kWorkloads, "N", "timed runs; default 11",
          &Options::iterations, whole(1)},
         {"warmup", kRun | kWorkloads, "N", "runs before them; default 2", &Options::warmup,
          whole(0)},
         {"seconds", kWorkloads, "S",
          "a kernel that takes longer stops early, after 3 runs or more;\n"
          "default 10, 0: no limit",
          &Options::seconds, decimal("a number of 0 or more", 0)},
         {"budget-ms", kTune, "MS",
          "milliseconds to spend on the choice for one workload; default 500", &Options::budget_ms,
          decimal("a finite number greater than 0", std::numeric_limits<double>::denorm_min())},
         {"flush-mib", kWorkloads, "N",
          "memory written between runs, to empty the caches; 0: none. Default\n"
          "for bench twice the last-level cache but 64 to 256, for tune 0",
          &Options::flush_mib, whole(0, kMaxFlushMebibytes)},
         {"times", kRoofline, "FILE",
          "CSV of `msda bench` with the times; default those stored of an H200\nwhere the rates "
          "are "
          "its",
          &Options::times},
         {"ncu", kRoofline, "FILE",
          "CSV of `ncu --csv --page raw` of one kernel on one problem: its\n"
          "counters beside what is counted",
          &Options::ncu},
         {"check", kRun, nullptr,
          "compare with the float64 reference; exit code 1 if an element is\n"
          "further from it than the documented bound",
          &Options::check, parse_bool},
         {"check", kBench, "MODE",
          "what is compared before it is timed: a sample of the queries (the\n"
          "default), all elements, or none",
          &Options::check_mode,
          one_of<CheckMode>("sample, all or none", {{"none", CheckMode::kNone},
                                                    {"sample", CheckMode::kSample},
                                                    {"all", CheckMode::kAll}})},
         {"check-queries", kRun | kBench, "N",
          "the sample: this many random queries of two batch items; 0: every\n"
          "one; default 0 for run, 64 for bench",
          &Options::check_queries, whole(0)},
     }},
    {kOutputGroup,
     {
         {"output", kRun, "FILE",
          "write the results: .npz, or one array as .npy or raw .bin; - is\n"
          "standard output, in this and all other files that are written",
          &Options::output, std::identity(), 'o'},
         {"quiet", kAll, nullptr, "print no report, only what is wrong; files are written",
          &Options::quiet, parse_bool, 'q'},
         {"save-inputs", kBench, "FILE", "write the tensors of one workload as .npz and stop",
          &Options::save_inputs},
         {"wisdom", kTune, "FILE", "add what was found out to the records in this file, or make it",
          &Options::wisdom_to_add},
         {"kernels", kInfo, nullptr, "list every kernel, not only the families",
          &Options::list_kernels, parse_bool},
         {"json", kAll, "FILE", "write the results as JSON", &Options::json},
         {"csv", kBench | kTune, "FILE",
          "write the results as CSV; those of bench in the baselines' format", &Options::csv},
         {"plot", kBench, "FILE", "draw the times, as .svg or .png", &Options::plot},
         {"plot", kRoofline, "FILE", "draw the kernels under the GPU's roofline, as .svg or .png",
          &Options::plot},
     }}};

std::vector<OptionRow> const& options_table() {
  static const std::vector<OptionRow> kTable = [] {
    std::vector<OptionRow> table;
    for (auto const& [group, rows] : kGroups) {
      for (OptionRow const& row : rows) table.emplace_back(row).group = group;
    }
    return table;
  }();
  return kTable;
}

auto rows_of(Command const& command) {
  return std::views::filter(options_table(), [bit = command.bit](OptionRow const& row) {
    return (row.commands & bit) != 0;
  });
}

// The row of a command that goes by this name, '_' as good as '-', or by this letter; null: none.
OptionRow const* find_row(Command const& command, std::string name, char letter = 0) {
  std::replace(name.begin(), name.end(), '_', '-');
  for (OptionRow const& row : rows_of(command)) {
    bool const has_name = std::ranges::find(row.names, name) != row.names.end();
    if (has_name || (letter != 0 && row.letter == letter)) return &row;
  }
  return nullptr;
}

std::string suggest_name(Command const& command, std::string name, const char* prefix) {
  std::replace(name.begin(), name.end(), '_', '-');
  std::vector<std::string> candidates;
  for (OptionRow const& row : rows_of(command)) {
    candidates.insert(candidates.end(), row.names.begin(), row.names.end());
  }
  std::string const best = nearest(name, candidates);
  if (best.empty()) return fmt::format("; `msda {} --help` lists what there is", command.name);
  return fmt::format("; did you mean '{}{}'?", prefix, best);
}

// The words of the command line, sorted by what they are. Flags win over key=value words, which win
// over the environment: words that lost are dropped here.
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
  OptionRow const* const row = name.starts_with("--") ? find_row(command, name.substr(2))
                               : name.size() == 2     ? find_row(command, "", name[1])
                                                      : nullptr;
  if (row == nullptr) {
    std::size_t const dashes = std::min(name.find_first_not_of('-'), name.size());
    bad_input("unknown option '{}'{}", name, suggest_name(command, name.substr(dashes), "--"));
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
  bool has_options = true;  // not behind "--", where every word is a file
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (has_options && words[i] == "--") {
      has_options = false;
    } else if (has_options && words[i].size() > 1 && words[i][0] == '-') {
      add_flag(command, words, i, out);
    } else if (has_options && words[i].find('=') != std::string::npos) {
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

// A file says its sizes itself: variables, which may be meant for another program, do not count.
bool reads_environment(Command const& command, Words const& words) {
  OptionRow const* const npz = find_row(command, "npz");
  std::error_code error;
  return words.given.find(npz) == words.given.end() &&
         (!words.input || std::filesystem::is_directory(*words.input, error));
}

// Sets the option as a word says it, or else the environment.
void set_option(OptionRow const& row, Words const& words, bool has_environment, Options& options) {
  std::string label, value;
  auto const given = words.given.find(&row);
  if (given != words.given.end()) {
    std::tie(label, value) = given->second;
  } else {
    const char* const name = has_environment ? environment_of(row.names.front()) : nullptr;
    const char* const found = name == nullptr ? nullptr : std::getenv(name);
    if (found == nullptr || *found == '\0') return;
    label = name;
    value = found;
    options.from_environment.push_back(fmt::format("{}={}", label, value));
  }
  try {
    row.set(options, value);
  } catch (InputError const& error) {
    bad_input("{} is '{}': {}", label, value, error.what());
  }
  options.labels.emplace_back(row.names.front(), label);
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
  bad_input("unknown command '{}'; there are {}{}", name, join(names, ", "),
            suggestion(name, names));
}

void print_help(Command const& command, bool has_environment) {
  CLI::App app{std::string(command.description), fmt::format("msda {}", command.name)};
  app.formatter(std::make_shared<HelpFormatter>());
  app.footer(std::string(command.examples));
  std::string word;
  if (!command.input_help.empty()) {
    app.add_option("INPUT", word, std::string(command.input_help))->type_name("");
  }
  for (OptionRow const& row : rows_of(command)) {
    std::string flags = row.letter == 0 ? "" : fmt::format("-{}", row.letter);
    for (std::string const& name : row.names) flags += (flags.empty() ? "--" : ",--") + name;
    CLI::Option* const option = app.add_option(flags, word, row.help);
    option->group(row.group)->type_name(row.value == nullptr ? "" : row.value);
    const char* const environment = environment_of(row.names.front());
    if (has_environment && environment != nullptr) option->envname(environment);
  }
  app.set_help_flag("-h,--help", "show this help")->group(kOutputGroup);
  fmt::print("{}", app.help());
}

int run_command(Command const& command, std::vector<std::string> const& words) {
  Words const sorted = sort_words(command, words);
  bool const has_environment = reads_environment(command, sorted);
  if (sorted.wants_help) {
    print_help(command, has_environment);
    return kExitOk;
  }
  Options options;
  options.input = sorted.input;
  for (OptionRow const& row : rows_of(command)) set_option(row, sorted, has_environment, options);
  return command.run(options);
}

constexpr std::string_view kSummary = "multi-scale deformable attention from the command line";
constexpr std::string_view kNotes =
    R"(Every option --some-name VALUE may also be written some_name=VALUE. Flags win over these
words, which win over the environment (BATCH_SIZE, NUM_QUERY, CHANNELS, NUM_ITERATIONS);
that counts where the input is no file, and the report says so. Words behind -- are files,
and - is standard input, or standard output where a file is written.
Exit codes: 0 done, 1 a check failed, 2 bad input, 3 the library failed.)";
constexpr std::string_view kExamples = R"(Examples:
  msda info
  msda run tensors.npz --check --output result.npz
  msda bench --workload rtdetr,dec --threads 1)";

std::string general_help() {
  std::string text = fmt::format(
      "msda - {}\n\nUsage: msda COMMAND [OPTIONS] [KEY=VALUE..]\n\nCommands:\n", kSummary);
  for (Command const& command : commands()) {
    text += fmt::format("  {:<9}{}\n", command.name, command.summary);
  }
  text += fmt::format(
      "\nOptions:\n"
      "  -h, --help      this help; `msda help COMMAND` or `msda COMMAND --help` for a command's\n"
      "  -V, --version   the version of the library\n"
      "\n{}\n\n{}\n",
      kNotes, kExamples);
  return text;
}

// The help of the program and of the options of every command, for tools/generate.
std::string help_json() {
  Json json = {{"version", version_text()},
               {"summary", kSummary},
               {"notes", kNotes},
               {"examples", kExamples},
               {"commands", Json::array()}};
  for (Command const& command : commands()) {
    Json options = Json::array();
    for (OptionRow const& row : rows_of(command)) {
      options.push_back({{"names", row.names},
                         {"group", row.group},
                         {"letter", row.letter == 0 ? Json() : Json(std::string(1, row.letter))},
                         {"value", row.value == nullptr ? Json() : Json(row.value)},
                         {"help", row.help}});
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

std::string Options::environment_line() const {
  if (from_environment.empty()) return "";
  return fmt::format("taken    {} from the environment\n", join(from_environment, " "));
}

int dispatch(std::vector<std::string> const& words, std::string& command_name) {
  if (words.empty()) bad_input("no command; `msda --help` lists them");
  std::string const& first = words.front();
  if (first == "--help" || first == "-h" || first == "help") {
    bool const wants_json = words.size() == 2 && words[1] == "--json";
    if (first == "help" && words.size() == 2 && !wants_json) {
      return run_command(find_command(words[1]), {"--help"});
    }
    fmt::print("{}", wants_json ? help_json() : general_help());
    return kExitOk;
  }
  if (first == "--version" || first == "-V") {
    fmt::print("msda {}\n", version_text());
    return kExitOk;
  }
  if (first.starts_with("-")) bad_input("unknown option '{}'; `msda --help` lists them", first);
  Command const& command = find_command(first);
  command_name = first;
  return run_command(command, {words.begin() + 1, words.end()});
}

}  // namespace msda::command
