// The options that the user gave. options_table() in options.cpp is the one list of what can be
// asked: flags, key=value words and environment variables, checks, help and the docs all come from
// it. And the commands.
#pragma once

#include "command/check/accuracy_check.h"

#include <msda.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace msda::command {

// --point-locality: as the points of the workload land.
inline constexpr std::string_view kOfPattern = "pattern";

enum CommandBit : unsigned {
  kInfo = 1,
  kRun = 2,
  kExplain = 4,
  kBench = 8,
  kTune = 16,
  kRoofline = 32
};

struct Options {
  std::optional<std::string> input;  // the word that is no flag: an .npz or a folder
  std::optional<std::string> dir;
  std::optional<std::string> npz;

  std::optional<std::int64_t> batch;
  std::optional<std::int64_t> queries;
  std::optional<std::int64_t> heads;
  std::optional<std::int64_t> channels;
  std::optional<std::vector<std::int32_t>> levels;  // [L][2]
  std::optional<std::vector<std::int32_t>> points;  // one number, or one a level
  std::optional<std::int32_t> value_border;
  std::optional<std::vector<std::int64_t>> level_start;  // [L]
  std::optional<std::int64_t> tokens;
  std::optional<std::int32_t> fused;
  std::string point_locality = "unknown";  // or another of locality_name(), or kOfPattern

  std::optional<msda_dtype> dtype;
  std::vector<msda_dtype> dtypes;  // of bench: one after the other
  std::optional<msda_dtype> value_dtype;
  std::optional<msda_dtype> coord_dtype;
  std::optional<msda_dtype> weight_dtype;
  std::optional<msda_dtype> output_dtype;
  std::optional<msda_dtype> grad_value_dtype;
  std::optional<msda_dtype> reference_dtype;
  std::optional<msda_dtype> stored_value_dtype;
  std::optional<msda_dtype> stored_coord_dtype;
  std::optional<msda_dtype> stored_weight_dtype;

  bool backward = false;
  bool any_order = false;
  std::vector<std::string> gradients;
  bool attention = false;
  bool fast_math = false;
  msda_sampling_mode sampling = MSDA_SAMPLING_BILINEAR;

  std::string kernel;
  std::vector<std::string> kernels;
  std::int32_t threads = 0;
  std::vector<std::int32_t> thread_counts;  // of bench: one after the other
  std::int32_t device = MSDA_DEVICE_CPU;
  std::int64_t iterations = 11;
  std::int64_t warmup = 2;
  double seconds = 10;
  std::optional<std::int64_t> flush_mib;
  double budget_ms = 500;
  std::optional<std::string> wisdom;         // that is read
  std::optional<std::string> wisdom_to_add;  // that records are added to

  bool check = false;
  CheckMode check_mode = CheckMode::kSample;
  std::optional<std::int64_t> check_queries;
  std::optional<std::string> output;

  std::vector<std::string> workloads;
  std::string pattern = "uniform";
  std::int64_t seed = 20260;
  bool list = false;
  std::optional<std::string> save_inputs;

  std::optional<std::string> gpu;
  std::optional<std::string> rates;
  std::optional<std::string> calibrate;
  std::optional<std::string> times;
  std::optional<std::string> ncu;

  bool quiet = false;
  bool list_kernels = false;
  std::optional<std::string> json;
  std::optional<std::string> csv;
  std::optional<std::string> plot;

  // How the user spelled an option that was given ("--batch", "batch=", "BATCH_SIZE"), for messages
  // about it; the flag if it was not.
  std::string label(std::string_view name) const;
  std::vector<std::pair<std::string, std::string>> labels;
  // Options that the environment set, as "BATCH_SIZE=3".
  std::vector<std::string> from_environment;
  // A line of the report that says so; empty where none was.
  std::string environment_line() const;
};

struct Command {
  std::string_view name;
  CommandBit bit;
  std::string_view summary;
  std::string_view description;
  std::string_view input_help;  // of the positional argument; empty: there is none
  std::string_view examples;
  int (*run)(Options const& options);
};

// Parses the words after the program's name and runs the command. Returns the exit code; throws
// InputError, with `command_name` set as soon as it is known.
int dispatch(std::vector<std::string> const& words, std::string& command_name);

// How a command ends.
enum ExitCode : int {
  kExitOk = 0,
  kExitCheckFailed = 1,  // a result was wrong
  kExitBadInput = 2,     // arguments, files, or a problem that no kernel takes
  kExitLibrary = 3,      // out of memory, or a defect of the library
};

// Each is in a file of its own, command_<name>.cpp.
extern const Command kInfoCommand;
extern const Command kRunCommand;
extern const Command kExplainCommand;
extern const Command kBenchCommand;
extern const Command kTuneCommand;
extern const Command kRooflineCommand;

// The library's message in the words of the command: options for the fields that they set.
std::string in_own_words(std::string const& command_name, std::string message);

}  // namespace msda::command
