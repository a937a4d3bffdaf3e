// The commands, one file each: command_<name>.cpp.
#pragma once

#include "cli/options.h"

#include <span>

namespace msda::cli {

extern const Command kInfoCommand;
extern const Command kRunCommand;
extern const Command kExplainCommand;
extern const Command kBenchCommand;
extern const Command kTuneCommand;
extern const Command kRooflineCommand;

std::span<const Command> commands();

}  // namespace msda::cli
