#include "command/commands/commands.h"

#include <array>

namespace msda::command {

std::span<const Command> commands() {
  static const std::array<Command, 6> kCommands = {kInfoCommand,     kRunCommand,   kExplainCommand,
                                                   kRooflineCommand, kBenchCommand, kTuneCommand};
  return kCommands;
}

}  // namespace msda::command
