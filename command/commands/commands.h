// The commands, one file each: command_<name>.cpp, and how they end.
#pragma once

#include "command/commands/options.h"

#include <string>

namespace msda::command {

enum ExitCode : int {
  kExitOk = 0,
  kExitCheckFailed = 1,  // a result was wrong
  kExitBadInput = 2,     // arguments, files, or a problem that no kernel takes
  kExitLibrary = 3,      // out of memory, or a defect of the library
};

extern const Command kInfoCommand;
extern const Command kRunCommand;
extern const Command kExplainCommand;
extern const Command kBenchCommand;
extern const Command kTuneCommand;
extern const Command kRooflineCommand;

// The library's message in the words of the command: options for the fields that they set.
std::string in_own_words(std::string const& command_name, std::string message);

}  // namespace msda::command
