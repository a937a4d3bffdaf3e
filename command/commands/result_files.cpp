#include "command/commands/result_files.h"

#include "command/files/input_error.h"
#include "core/join.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

namespace msda::command {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPngEnding = ".png";

// Every option that names a file to write, and how its name has to end.
struct OutputOption {
  const char* name;
  std::optional<std::string> Options::* path;
  std::vector<std::string_view> endings;  // none: any
};

const OutputOption kOutputOptions[] = {
    {"output", &Options::output, {std::begin(kArrayFormats), std::end(kArrayFormats)}},
    {"save-inputs", &Options::save_inputs, {".npz"}},
    {"wisdom", &Options::wisdom_to_add, {}},
    {"json", &Options::json, {}},
    {"csv", &Options::csv, {}},
    {"plot", &Options::plot, {".svg", kPngEnding}},
    {"calibrate", &Options::calibrate, {}}};

// Every file that the command reads.
std::vector<std::string> input_files(Options const& options) {
  std::vector<std::string> files;
  for (auto const* const path : {&options.input, &options.npz, &options.dir, &options.wisdom,
                                 &options.rates, &options.times, &options.ncu}) {
    if (!*path) continue;
    files.push_back(**path == "-" ? "/dev/stdin" : **path);
    std::error_code error;
    for (auto const& member : fs::directory_iterator(files.back(), error)) {
      files.push_back(member.path().string());
    }
  }
  return files;
}

void check_ending(OutputOption const& option, OutputFile const& file, std::string const& path) {
  if (!file.is_replaced() || option.endings.empty()) return;
  bool const is_known =
      std::ranges::find(option.endings, fs::path(path).extension()) != option.endings.end();
  if (!is_known) {
    bad_input("{} is '{}': must end in {}", file.label(), path, join(option.endings, ", "));
  }
  if (!kCanDrawPng && fs::path(path).extension() == kPngEnding) {
    bad_input("{} is '{}': this msda was built without Cairo, which draws PNG; .svg needs nothing",
              file.label(), path);
  }
}

void print_report(std::FILE* stream, std::string_view report) {
  bool const is_written = std::fwrite(report.data(), 1, report.size(), stream) == report.size() &&
                          std::fflush(stream) == 0;
  if (!is_written) {
    bad_input("standard {} cannot be written", stream == stdout ? "output" : "error");
  }
}

}  // namespace

ResultFiles::ResultFiles(Options const& options) : is_quiet_(options.quiet) {
  std::vector<std::string> const inputs = input_files(options);
  for (OutputOption const& option : kOutputOptions) {
    std::optional<std::string> const& path = options.*option.path;
    if (!path) continue;
    OutputFile file(*path, options.label(option.name));
    check_ending(option, file, *path);
    std::optional<FileIdentity> const identity = file.identity();
    for (std::string const& input : inputs) {
      if (identity && identity == file_identity(input)) {
        bad_input("{} is '{}': that is the input {}", file.label(), *path, input);
      }
    }
    for (Entry const& other : entries_) {
      if (other.file.is_same(file)) {
        bad_input("{} is '{}': {} writes that file", file.label(), *path, other.file.label());
      }
    }
    entries_.push_back({option.name, *path, std::move(file), {}});
  }
}

ResultFiles::Entry* ResultFiles::find(std::string_view option) {
  auto const found = std::ranges::find(entries_, option, &Entry::option);
  return found == entries_.end() ? nullptr : &*found;
}

void ResultFiles::add_text(std::string_view option, std::string text) {
  Entry* const entry = find(option);
  if (entry == nullptr) return;
  entry->write = [text = std::move(text)](int descriptor) {
    write_bytes(descriptor, std::as_bytes(std::span(text)));
  };
}

void ResultFiles::add_plot(std::string_view option, Drawing const& drawing) {
  Entry* const entry = find(option);
  if (entry == nullptr) return;
  bool const is_png = entry->file.is_replaced() && entry->path.ends_with(kPngEnding);
  add_text(option, is_png ? png_of(drawing) : svg_of(drawing));
}

void ResultFiles::add_arrays(std::string_view option, std::vector<FileArray> arrays) {
  Entry* const entry = find(option);
  if (entry == nullptr) return;
  std::string const format = array_format(entry->path, arrays.size());
  entry->write = [arrays = std::move(arrays), format](int descriptor) {
    write_arrays(descriptor, format, arrays);
  };
}

void ResultFiles::finish(std::string_view report) {
  std::FILE* stream = stdout;
  // Replaced files come first: until the last step a failure takes them back.
  for (bool const is_replaced : {true, false}) {
    for (Entry& entry : entries_) {
      if (!entry.write || entry.file.is_replaced() != is_replaced) continue;
      entry.file.stage(entry.write);
      if (entry.file.is_standard_output()) stream = stderr;
    }
  }
  if (!is_quiet_) print_report(stream, report);
  for (Entry& entry : entries_) entry.file.commit();
}

}  // namespace msda::command
