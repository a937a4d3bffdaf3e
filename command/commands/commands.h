// The commands, one file each: command_<name>.cpp.
#pragma once

#include "command/commands/options.h"

#include <span>

namespace msda::command {

extern const Command kInfoCommand;
extern const Command kRunCommand;
extern const Command kExplainCommand;
extern const Command kBenchCommand;
extern const Command kTuneCommand;
extern const Command kRooflineCommand;

std::span<const Command> commands();

}  // namespace msda::command
