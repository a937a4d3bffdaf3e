// The report of a command and the files that it writes: all of it, or nothing where any of it
// cannot be written.
#pragma once

#include "command/commands/options.h"
#include "command/files/array_files.h"
#include "command/files/output_file.h"
#include "command/report/drawing.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace msda::command {

class ResultFiles {
 public:
  // Before the work: refuses a path that cannot be written, that is an input, or that two options
  // name.
  explicit ResultFiles(Options const& options);

  // Adds the content of an option's file, if the option was given; the memory that `arrays` point
  // to has to live until finish().
  void add_text(std::string_view option, std::string text);
  void add_plot(std::string_view option, Drawing const& drawing);  // PNG by the name, or SVG
  void add_arrays(std::string_view option, std::vector<FileArray> arrays);
  // Writes the files, and prints the report unless --quiet is given: to standard error where a file
  // is standard output.
  void finish(std::string_view report);

  // The file of an option that was given.
  OutputFile const& file(std::string_view option) { return find(option)->file; }

 private:
  struct Entry {
    std::string option;
    std::string path;
    OutputFile file;
    std::function<void(int descriptor)> write;
  };
  Entry* find(std::string_view option);

  bool is_quiet_;
  std::vector<Entry> entries_;
};

}  // namespace msda::command
