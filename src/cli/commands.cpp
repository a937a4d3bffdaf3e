#include "cli/commands.h"

#include <array>

namespace msda::cli {

std::span<const Command> commands() {
  static const std::array<Command, 5> kCommands = {kInfoCommand, kRunCommand, kExplainCommand,
                                                   kBenchCommand, kTuneCommand};
  return kCommands;
}

}  // namespace msda::cli
