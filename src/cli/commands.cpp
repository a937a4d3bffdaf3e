#include "cli/commands.h"

#include <array>

namespace msda::cli {

std::span<const Command> commands() {
  static const std::array<Command, 4> kCommands = {kInfoCommand, kRunCommand, kExplainCommand,
                                                   kBenchCommand};
  return kCommands;
}

}  // namespace msda::cli
