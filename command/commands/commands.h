// The commands, one file each: command_<name>.cpp, and how they end.
#pragma once

#include "command/commands/options.h"

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

}  // namespace msda::command
